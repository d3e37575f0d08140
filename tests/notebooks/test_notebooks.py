"""The notebooks run, and what they show is what is stored."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import notebooks
from tools.notebooks import nbformat

SOURCES = notebooks.sources()
SMALL = 200_000  # bytes of a stored notebook


def test_there_are_five_and_each_is_made_of_its_source() -> None:
    assert len(SOURCES) == 5
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == {s.stem for s in SOURCES}
    for source in SOURCES:
        kept = nbformat.read(notebooks.stored(source), as_version=4)
        made = notebooks.parse(source.read_text(encoding="utf-8"))
        assert [(c.cell_type, c.source) for c in kept.cells] == [
            (c.cell_type, c.source) for c in made.cells
        ], f"{source.name}: run python tools/notebooks.py"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_stored_notebook_is_small_valid_and_shows_no_error_and_no_path(source: Path) -> None:
    path = notebooks.stored(source)
    text = path.read_text(encoding="utf-8")
    kept = nbformat.reads(text, as_version=4)
    nbformat.validate(kept)
    assert len(text) < SMALL
    outputs = [o for cell in kept.cells for o in cell.get("outputs", ())]
    assert not [o for o in outputs if o.output_type == "error"]
    assert "/tmp/" not in text
    assert "0x7f" not in text  # the address of an object
    assert outputs


def test_a_changed_output_is_found_and_one_that_varies_is_not() -> None:
    def cells(text: str, tags: list[str]) -> object:
        cell = nbformat.v4.new_code_cell("f()", id="a")
        cell.metadata["tags"] = tags
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
        return nbformat.v4.new_notebook(cells=[cell])

    assert notebooks.comparable(cells("1", [])) != notebooks.comparable(cells("2", []))
    varies = [notebooks.VARIES]
    assert notebooks.comparable(cells("1", varies)) == notebooks.comparable(cells("2", varies))


def test_the_order_of_the_kinds_of_an_output_does_not_count() -> None:
    """A file has them by name, a kernel in an order of its own."""

    def cells(*kinds: str) -> object:
        cell = nbformat.v4.new_code_cell("f()", id="a")
        data = dict.fromkeys(kinds, "x")
        cell.outputs = [nbformat.v4.new_output("execute_result", data=data)]
        return nbformat.v4.new_notebook(cells=[cell])

    shown = notebooks.comparable(cells("text/plain", "text/html"))
    assert shown == notebooks.comparable(cells("text/html", "text/plain"))
    assert shown != notebooks.comparable(cells("text/plain", "image/png"))


@pytest.mark.integration
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_stored(source: Path) -> None:
    """In a process of its own: the kernel's client keeps its sockets open."""
    done = subprocess.run(
        [sys.executable, notebooks.__file__, "--check", source.stem], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
