"""A git host over HTTPS in a process of its own: the bare repositories of a directory, as a public host gives them.

    with GitHost(authority, root) as host:
        ...                      # clone host.url("notes.git")

Run as a program it serves: `githost.py ROOT CERTIFICATE ADDRESS` prints its port, and a line for each request.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import socketserver
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from tests.harness.tls import Authority


class GitHost:
    """Serves `root` on `address` until its end; `within` prefixes the command line (a network namespace's)."""

    def __init__(
        self, authority: Authority, root: Path, *, address: str = "127.0.0.1", within: Sequence[str] = ()
    ) -> None:
        self._authority = authority
        self._root = root
        self._address = address
        self._within = within
        self._left = contextlib.ExitStack()
        self.port = 0

    def url(self, repository: str) -> str:
        """The address of a repository."""
        return f"https://{self._address}:{self.port}/{repository}"

    def __enter__(self) -> GitHost:
        directory = Path(self._left.enter_context(tempfile.TemporaryDirectory()))
        certificate = directory / "certificate.pem"
        self._authority.certificate(self._address, certificate)
        line = [*self._within, sys.executable, "-I", __file__, str(self._root), str(certificate), self._address]
        self._heard = self._left.enter_context((directory / "heard").open("w+"))
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._heard)
        self._left.callback(_end, process)
        assert process.stdout is not None
        self.port = int(process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.close()

    def asked(self) -> list[str]:
        """The requests so far: method and path."""
        self._heard.seek(0)
        return self._heard.read().splitlines()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


class _Backend(http.server.BaseHTTPRequestHandler):
    """Hands every request to git's own server."""

    root = ""

    def do_GET(self) -> None:
        """A reference's or an object's request."""
        self._pass(b"")

    def do_POST(self) -> None:
        """A request for a pack."""
        self._pass(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _pass(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        given = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": unquote(path),
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(["git", "http-backend"], env=given, input=body, capture_output=True, check=False)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = [line.partition(": ") for line in head.decode().split("\r\n") if line]
        status = next((value for name, _, value in fields if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, _, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """One line a request."""
        print(self.command, self.path, file=sys.stderr, flush=True)  # noqa: T201 - it is a program


def main(root: str, certificate: str, address: str) -> None:
    """Serve until killed."""
    _Backend.root = root
    server = socketserver.ThreadingTCPServer((address, 0), _Backend)  # HTTPServer would look its own name up
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)  # noqa: T201 - it is a program
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
