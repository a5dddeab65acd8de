"""What comes from the terminal: keys as Textual reads them, and pastes that can never press a key.

Textual's parser takes an escape character inside a bracketed paste for the beginning of a key, and what follows it
for keys; most terminals leave such characters out of what they paste, tmux does not. It also takes seconds for a few
megabytes. So it sees where a paste begins and ends and nothing of the text, which cannot answer a card then either.
"""

from __future__ import annotations

import os
import selectors
import signal
from codecs import getincrementaldecoder
from collections import deque
from typing import Final

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste

BEGIN: Final = "\x1b[200~"
END: Final = "\x1b[201~"
ESCAPE: Final = "\x1b"


class PasteFilter:
    """Text in pieces of any length in, the same out but for what is inside of pastes: that is kept in `pasted`, one
    text for each whose end was seen, without escape characters."""

    def __init__(self) -> None:
        self.pasted: deque[str] = deque()
        self._parts: list[str] = []
        self._pasting = False
        self._seen = ""  # outside: the end of what went through, where a paste may have begun to begin
        self._held = ""  # inside: what may be the beginning of its end

    def feed(self, text: str) -> str:
        """The next piece, without what is pasted."""
        made: list[str] = []
        while text:
            text = self._inside(text, made) if self._pasting else self._outside(text, made)
        return "".join(made)

    def _outside(self, text: str, made: list[str]) -> str:
        """Let everything through up to the beginning of a paste; what is left."""
        whole = self._seen + text
        at = whole.find(BEGIN)
        if at < 0:
            made.append(text)
            self._seen = whole[-len(BEGIN) + 1 :]
            return ""
        rest = whole[at + len(BEGIN) :]
        made.append(text[: len(text) - len(rest)])
        self._pasting, self._seen = True, ""
        return rest

    def _inside(self, text: str, made: list[str]) -> str:
        """Keep everything up to the end of the paste; what is left."""
        text, self._held = self._held + text, ""
        at = text.find(END)
        if at >= 0:
            self._parts.append(text[:at])
            self.pasted.append("".join(self._parts).replace(ESCAPE, "").replace("\0", ""))
            self._parts.clear()
            made.append(END)
            self._pasting = False
            return text[at + len(END) :]
        for size in range(len(END) - 1, 0, -1):
            if text.endswith(END[:size]):
                text, self._held = text[:-size], text[-size:]
                break
        self._parts.append(text)
        return ""


class TerminalDriver(LinuxDriver):
    """Textual's own driver for terminals, with the filter before its parser."""

    def run_input_thread(self) -> None:
        """Read until the app is over."""
        parser, filtered = XTermParser(self._debug), PasteFilter()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    data = self._read()
                    if not data:
                        os.kill(os.getpid(), signal.SIGHUP)  # the terminal is gone
                        return
                    text = filtered.feed(decode(data))
                    for event in parser.feed(text) if text else ():
                        if isinstance(event, Paste) and filtered.pasted:
                            event = Paste(filtered.pasted.popleft())
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 65_536)
        except OSError:
            return b""
