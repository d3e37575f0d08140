"""Play the tutorials of fleets: the commands of a page as they are printed, each in its folder.

    desk$ veilsum fleet init ../board        what stands before $ is the folder, beside the others
    Began the fleet board. ...               what it prints

A command that runs until somebody ends it (`fleet run`) is a process of its own, ended with the page;
`crontab FILE` calls the command of FILE again and again, sooner than cron would.
`python docs/fleet_tutorials.py PAGE ...` plays pages and writes what was printed into them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MARK = re.compile(r"fleet approve ([0-9a-f]{8})")
APPROVED = re.compile(r"(fleet approve )[0-9a-f]+")
BLOCK = re.compile(r"^```shell-session\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^(?P<place>[a-z0-9-]+)\$ (?P<command>.*)$")
EVERY = 0.5  # seconds between two calls of cron
PATIENCE = 240  # seconds for one command
CHANGING = (  # what is another text each time
    (re.compile(r"\b[0-9a-f]{4}(?: [0-9a-f]{4}){4}\b"), "KEY"),
    (re.compile(r"\b[0-9a-f]{8,64}\b"), "HEX"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d{1,2} [A-Z][a-z]+ 20\d\d\b"), "DAY"),
    (re.compile(r"#+"), "#"),
    (re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"), "N"),
    (re.compile(r"\s+"), " "),
)


@dataclass
class Played:
    """A command of a page.

    Parameters
    ----------
    place : str
        The folder.
    command : str
        What is typed.
    printed : str
        What the page says that it prints.
    output : str
        What it printed when it was played.
    code : int
        Its exit code.
    """

    place: str
    command: str
    printed: str
    output: str = ""
    code: int = 0

    @property
    def runs(self) -> bool:
        """Whether somebody has to end it."""
        return self.command.startswith(("veilsum fleet run", "crontab"))

    @property
    def text(self) -> str:
        """As it stands on a page."""
        return f"{self.place}$ {self.command}\n{self.output}"


def commands(page: str) -> list[Played]:
    """The commands of a page, in order."""
    return [one for block in BLOCK.findall(page) for one in _of_block(block)]


def _of_block(block: str) -> Iterator[Played]:
    found: Played | None = None
    for line in block.splitlines(keepends=True):
        match = PROMPT.match(line.rstrip("\n"))
        if match:
            if found is not None:
                yield found
            found = Played(match["place"], match["command"], "")
        elif found is not None:
            found.printed += line
    if found is not None:
        yield found


def files(page: str) -> dict[str, str]:
    """The files that a page shows, by their names."""
    return dict(FILE.findall(page))


@contextmanager
def playing(
    page: str, root: Path, environment: Mapping[str, str] | None = None, address: str = ""
) -> Iterator[list[Played]]:
    """Play a page in an empty folder; what runs is ended behind the block.

    Parameters
    ----------
    page
        Its text.
    root
        Where the folders are.
    environment
        What is set besides.
    address
        In place of the example's, https://files.example.org/trial.
    """
    found, running = commands(page), []
    for name, text in files(page).items():
        (root / name).write_text(text)
    mark: re.Match[str] | None = None
    try:
        for one in found:
            place = root / one.place
            place.mkdir(exist_ok=True)
            one.command = APPROVED.sub(rf"\g<1>{mark[1] if mark else ''}", one.command)
            if one.runs:
                running.append((one, _start(one, place, environment, address)))
            else:
                _call(one, place, environment, address)
                mark = MARK.search(one.output) or mark
        yield found
    finally:
        for one, process in running:
            process.send_signal(signal.SIGTERM)
            one.code = process.wait(30)
            one.output = "" if one.command.startswith("crontab") else _log(root, one).read_text()


def _words(command: str, address: str) -> list[str]:
    if address:
        command = command.replace("https://files.example.org/trial", address)
    words = shlex.split(command)
    if words[0] == "crontab":
        return [sys.executable, str(Path(__file__).resolve()), "--cron", words[1]]
    python = [sys.executable]
    return {"veilsum": [*python, "-m", "veilsum.cli"], "python": python}[words[0]] + words[1:]


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "80", **(more or {})}


def _call(one: Played, place: Path, environment: Mapping[str, str] | None, address: str) -> None:
    done = subprocess.run(
        _words(one.command, address), cwd=place, env=_environment(environment), text=True,
        capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    one.output, one.code = done.stdout, done.returncode
    if address:
        one.output = one.output.replace(address, "https://files.example.org/trial")
    if done.returncode:
        raise RuntimeError(f"{one.place}$ {one.command}\n{done.stdout}{done.stderr}")


def _log(root: Path, one: Played) -> Path:
    return root / f"{one.place}.log"


def _start(
    one: Played, place: Path, environment: Mapping[str, str] | None, address: str
) -> subprocess.Popen[str]:
    with _log(place.parent, one).open("w") as log:
        return subprocess.Popen(
            _words(one.command, address), cwd=place, env=_environment(environment), text=True,
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def plain(text: str) -> str:
    """A text without what changes from day to day."""
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return text.strip()


def renewed(page: str, found: list[Played]) -> str:
    """A page with what was printed."""
    left = list(found)

    def block(match: re.Match[str]) -> str:
        count = len(list(_of_block(match[1])))
        own = [left.pop(0) for _ in range(count)]
        return f"```shell-session\n{''.join(one.text for one in own)}```"

    return BLOCK.sub(block, page)


def main() -> None:
    """Play pages, and write them."""
    if sys.argv[1:2] == ["--cron"]:
        _cron(Path(sys.argv[2]))
        return
    for name in sys.argv[1:]:
        path = Path(name)
        page = path.read_text()
        with tempfile.TemporaryDirectory() as folder, _server(page, Path(folder)) as more:
            root = Path(folder) / "play"
            root.mkdir()
            with playing(page, root, *more) as found:
                pass
            path.write_text(renewed(page, found))


def _cron(table: Path) -> None:
    """Call the command of a table, in this folder, until SIGTERM; its mails are lines."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    line = table.read_text().partition("&& ")[2]
    while not ended.wait(EVERY):
        done = subprocess.run(_words(line, ""), text=True, capture_output=True, check=False)
        print(done.stdout + done.stderr, end="", flush=True)


@contextmanager
def _server(page: str, folder: Path) -> Iterator[tuple[Mapping[str, str], str]]:
    """A WebDAV server for a page that has one."""
    if "https://files.example.org" not in page:
        yield {}, ""
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.fleet.servers import RcloneWebDav

    server = RcloneWebDav(folder)
    server.start()
    try:
        yield server.environment(), server.address
    finally:
        server.close()


if __name__ == "__main__":
    main()
