"""The two files of a sheet, NAME.html and NAME.csv, beside each other.

Earlier ones are replaced. A file of that name which veilsum did not write, such as the readings
themselves, is never touched. What compares with the truth of measured signals is in files that are named
secret and that only their owner can read, from the first byte on.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum.errors import CommandError
from veilsum.front.page import GENERATOR, document
from veilsum.front.table import COLUMNS, as_csv

if TYPE_CHECKING:
    from veilsum.front.sheet import Answers

SECRET = ".secret"
OWNER_ONLY = 0o600
MARKS = {".html": GENERATOR, ".csv": ",".join(COLUMNS)}  # what the beginning of our files has
BEGINNING = 2000
FIGURES = {".pdf": "Creator", ".svg": "Creator", ".png": "Software"}  # where our mark is


def save(answers: Answers, stem: str | PathLike[str] | None = None) -> list[Path]:
    """Write both; see `Answers.save`."""
    page, table = places(answers.name, stem, answers.secret)
    page.parent.mkdir(parents=True, exist_ok=True)
    for path, text in ((page, document(answers)), (table, as_csv(answers))):
        _write(path, text, answers.secret)
    return [page, table]


def places(name: str, stem: str | PathLike[str] | None, secret: bool = False) -> list[Path]:
    """Where both files go; an error before anything is computed if something else is there."""
    base = Path(stem or name)
    base = base / name if base.is_dir() else base
    if base.suffix in MARKS:
        base = base.with_suffix("")
    found = [base.with_name(f"{base.name}{SECRET if secret else ''}{kind}") for kind in MARKS]
    for path in found:
        _check_folder(path, "--out STEM")
        check_ours(path)
    return found


def save_page(path: Path, text: str) -> None:
    """Write a page that has no table beside it, in place of an earlier one."""
    check_ours(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, text, secret=False)


def check_ours(path: Path) -> None:
    """Raise if a file is there that veilsum did not write."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder; name another file with --out STEM")
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        beginning = file.read(BEGINNING)
    mark = MARKS[path.suffix]
    ours = mark in beginning if path.suffix == ".html" else beginning.startswith(mark)
    if beginning and not ours:
        raise CommandError(
            f"{path} is there already and is no {path.suffix[1:]} file of veilsum, so it is not "
            "replaced; name other files with --out STEM, or move it away"
        )


def _write(path: Path, text: str, secret: bool) -> None:
    """Through a new file that takes the place of the old one in one step."""
    mode = OWNER_ONLY if secret else 0o666
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as file:
            file.write(text)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def check_figure(path: Path) -> None:
    """Raise if a figure cannot be written as a file of this name, or one of somebody else is there."""
    if path.suffix not in FIGURES:
        raise CommandError(
            f"a figure is a file whose name ends in {', '.join(FIGURES)}; found {path.name!r}"
        )
    _check_folder(path, "--plot FILE")
    if path.is_file() and path.stat().st_size and b"veilsum" not in path.read_bytes():
        raise CommandError(
            f"{path} is there already and is no figure of veilsum, so it is not replaced; name "
            "another file with --plot FILE, or move it away"
        )


def save_figure(answers: Answers, path: Path) -> None:
    """Write the figure of a sheet, with the mark by which it may be replaced."""
    figure = answers.plot().get_figure(root=True)
    assert figure is not None
    figure.savefig(path, metadata={FIGURES[path.suffix]: "veilsum"})


def _check_folder(path: Path, option: str) -> None:
    """Raise if nothing can be written beside a path, before anything is computed."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise CommandError(f"nothing can be written in {folder}; name another place with {option}")


def stale_secrets(written: list[Path]) -> list[Path]:
    """Secret files beside these that an earlier run has left."""
    beside = {path.with_name(f"{path.stem}{SECRET}{path.suffix}") for path in written}
    return sorted(path for path in beside - set(written) if path.exists())
