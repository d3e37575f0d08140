"""Members of a fleet in folders of a test, and the commands that people call there."""

from __future__ import annotations

import os
import random
from contextlib import chdir
from pathlib import Path
from typing import Any

from tests.front.studies import call

WRONG = -1  # whatever code an error has
SITES = ("north", "east", "west")
MEAN = "mean kwh --between 0 40 --eps 1 --fleet ../board"
ALLOWED = "--approve mean,count,histogram --columns kwh --max-epsilon 3"


def write_readings(folder: Path, rows: int = 168) -> Path:
    """A table of a site, the same for the same name."""
    draw = random.Random(folder.name)
    lines = [f"{k},{min(max(draw.gauss(12, 4), 0), 40):.2f}" for k in range(rows)]
    path = folder / "readings.csv"
    path.write_text("\n".join(["hour,kwh", *lines]) + "\n")
    return path


class Folders:
    """Folders of members side by side; the board is beside them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.board = root / "board"

    def place(self, name: str) -> Path:
        """The folder of a member."""
        path = self.root / name
        path.mkdir(exist_ok=True)
        return path

    def fleet(self, name: str, words: str, code: int = 0, **more: Any) -> str:
        """What `veilsum fleet WORDS` prints in a member's folder."""
        return self.veilsum(name, f"fleet {words}", code, **more)

    def veilsum(self, name: str, words: str, code: int = 0, **more: Any) -> str:
        """What a command prints in a member's folder, errors too."""
        with chdir(self.place(name)):
            done = call(*words.split(), **more)
        assert done.exit_code in (code, *([1, 2] if code == WRONG else [])), (
            words,
            done.exit_code,
            done.output,
            done.exception,
        )
        assert "Traceback" not in done.output
        if not code and "--json" not in words:
            for line in done.stdout.splitlines():  # a path of this test is one word, and is not cut
                longest = max(map(len, line.split()), default=0)
                assert len(line) <= max(80, longest + 12), done.output
        return str(done.stdout if "--json" in words and not code else done.output)

    def begin(self, *sites: str, options: str = "--mounted", joined: str = ALLOWED) -> Folders:
        """A fleet whose sites are admitted."""
        self.fleet("desk", f"init ../board {options}")
        for name in sites or SITES:
            self.join(name, joined)
        self.fleet("desk", f"admit {' '.join(sites or SITES)}")
        return self

    def join(self, name: str, options: str = ALLOWED) -> str:
        """A site joins."""
        write_readings(self.place(name))
        words = f"join ../board --name {name} --data readings.csv --epsilon 3 {options}"
        return self.fleet(name, words)

    def step(self, *names: str, code: int = 0, at: int | None = None) -> str:
        """A step of each."""
        more = "" if at is None else f" --at {at}"
        return "".join(self.fleet(name, f"step{more}", code) for name in names)

    def stored(self) -> dict[str, bytes]:
        """All objects of the board but lists of what members hold."""
        found = {}
        for folder, _, names in os.walk(self.board):
            for name in names:
                path = Path(folder, name)
                key = str(path.relative_to(self.board))
                if not key.startswith("seen/"):
                    found[key] = path.read_bytes()
        return found


def squeezed(text: str) -> str:
    """Without the ends of lines."""
    return " ".join(text.split())
