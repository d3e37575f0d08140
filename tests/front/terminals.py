"""veilsum on a real terminal of a given size: what it shows, and what Ctrl-C does."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import NamedTuple

WIDTHS = (60, 80, 100, 120)
CTRL_C = b"\x03"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r(?=\n)")  # colours, cursor, ends of lines


class Shown(NamedTuple):
    """What a command left on a terminal.

    `text` is stdout and `errors` stderr, without colours; `raw` is stdout with them; `ended` are the
    seconds from Ctrl-C to the end, or of the whole command.
    """

    text: str
    errors: str
    raw: str
    code: int
    ended: float

    @property
    def lines(self) -> list[str]:
        """Of stdout."""
        return self.text.splitlines()


def _begin() -> None:
    """In the child: its terminal, and Ctrl-C as a shell gives it, whatever the tests were started by."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_terminal(
    *words: object,
    columns: int = 80,
    rows: int = 24,
    folder: Path | None = None,
    interrupt: str | None = None,
    patience: float = 120.0,
    program: str = "",
) -> Shown:
    """Run `veilsum WORDS` on a terminal of its own; stdout and stderr are one each.

    With `interrupt`, Ctrl-C is pressed when that text has appeared on either of them. A `program` is
    Python that is run in place of the command line, with its arguments.
    """
    terminals = [pty.openpty() for _ in range(2)]
    for _, inside in terminals:
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    (out, out_inside), (err, err_inside) = terminals
    unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    settings = {key: value for key, value in os.environ.items() if key not in unset}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *(["-c", program] if program else ["-m", "veilsum.cli"]), *map(str, words)],
        stdin=out_inside, stdout=out_inside, stderr=err_inside, cwd=folder,
        env=settings | {"TERM": "xterm-256color"}, start_new_session=True,
        preexec_fn=_begin,
    )  # fmt: skip
    for _, inside in terminals:
        os.close(inside)
    said = {out: b"", err: b""}
    pressed = began
    try:
        reading = set(said)
        while reading:
            left = began + patience - time.monotonic()
            ready, _, _ = select.select(list(reading), [], [], max(left, 0))
            assert ready, (
                f"{words} has not ended after {patience} s: {[t[-200:] for t in said.values()]}"
            )
            for terminal in ready:
                part = _read(terminal)
                said[terminal] += part
                reading -= set() if part else {terminal}
            if interrupt is not None and any(interrupt.encode() in text for text in said.values()):
                os.write(out, CTRL_C)
                pressed, interrupt = time.monotonic(), None
        code = process.wait(patience)
        ended = time.monotonic() - pressed
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(out)
        os.close(err)
    raw, errors = (said[terminal].decode() for terminal in (out, err))
    return Shown(CONTROL.sub("", raw), CONTROL.sub("", errors), raw, code, ended)


def _read(terminal: int) -> bytes:
    """What there is to read; nothing if the other end is closed, which is an error on Linux."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
