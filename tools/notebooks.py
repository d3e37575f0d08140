"""Make the notebooks from their sources: run every cell and keep what it shows.

    python tools/notebooks.py              writes notebooks/*.ipynb
    python tools/notebooks.py --check      fails if a stored notebook is out of date

A source is Markdown (notebooks/sources/NAME.md) whose blocks of Python are the cells: a change is a
few lines of a diff, which a change of JSON is not. A block that begins with ```python varies shows
what differs from run to run (noise of the operating system, seconds): its output is stored and not
compared. Pictures are compared by kind, since their bytes depend on the version of matplotlib.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat as untyped
from nbclient import NotebookClient

nbformat: Any = untyped
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
SOURCES = FOLDER / "sources"
VARIES = "varies"
BLOCK = re.compile(r"^```python(?P<tags>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
SECONDS = 60  # for one cell


def sources() -> list[Path]:
    """The sources, in the order to read them."""
    return sorted(SOURCES.glob("*.md"))


def stored(source: Path) -> Path:
    """Where the notebook of a source is."""
    return FOLDER / f"{source.stem}.ipynb"


def parse(text: str) -> Any:
    """A notebook without outputs."""
    cells: list[Any] = []
    for kind, content, tags in _parts(text):
        number = f"cell-{len(cells) + 1}"
        if kind == "code":
            cell = nbformat.v4.new_code_cell(content, id=number)
            cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        else:
            cell = nbformat.v4.new_markdown_cell(content, id=number)
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def _parts(text: str) -> Iterator[tuple[str, str, list[str]]]:
    end = 0
    for found in BLOCK.finditer(text):
        if prose := text[end : found.start()].strip():
            yield "markdown", prose, []
        yield "code", found["code"].rstrip("\n"), found["tags"].split()
        end = found.end()
    if prose := text[end:].strip():
        yield "markdown", prose, []


def execute(notebook: Any) -> Any:
    """Run every cell in an empty folder; the same cells give the same file, what varies aside."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1", "COLUMNS": "100"}
        env["VEILSUM_HOME"] = str(Path(folder) / "home")  # budgets are found again here alone
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", record_timing=False,
            resources={"metadata": {"path": folder}}, extra_arguments=["--log-level=ERROR"],
        )  # fmt: skip
        client.execute(env=env)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = _joined(cell.outputs)
        for output in cell.get("outputs", ()):
            _clean(output, folder)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Text that a cell printed in one piece, however many messages it came in."""
    found: list[Any] = []
    for output in outputs:
        if found and found[-1].get("name", "no text") == output.get("name"):
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _clean(output: Any, folder: str) -> None:
    """Leave out what depends on this machine: the folder, addresses of objects, metadata."""
    output.pop("metadata", None) if output.output_type == "stream" else output.update(metadata={})
    if "text" in output:
        output["text"] = output["text"].replace(folder, "folder")
    data = output.get("data", {})
    if {"text/html", "image/png"} & data.keys():
        data["text/plain"] = "(shown as HTML or as a picture)"


def comparable(notebook: Any) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """What two runs of a notebook have in common: cells, and outputs that do not vary."""
    return [
        (cell.cell_type, cell.source, [] if _varies(cell) else _shown(cell))
        for cell in notebook.cells
    ]


def _varies(cell: Any) -> bool:
    return VARIES in cell.metadata.get("tags", ())


def _shown(cell: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            found.append((output.name, output.text))
        else:
            found += [
                (kind, "" if kind.startswith("image/") else str(value))
                for kind, value in sorted(output.get("data", {}).items())
            ]
    return found


def make(source: Path) -> Any:
    """Parse and run one source."""
    return execute(parse(source.read_text(encoding="utf-8")))


def stale(source: Path) -> str:
    """Why the stored notebook is out of date; empty if it is not."""
    path = stored(source)
    if not path.is_file():
        return f"{path.name} is missing"
    kept, made = (comparable(n) for n in (nbformat.read(path, as_version=4), make(source)))
    for number, (old, new) in enumerate(zip(kept, made, strict=False), 1):
        if old != new:
            return f"{path.name}, cell {number}: stored {old!r}; found {new!r}"
    return "" if len(kept) == len(made) else f"{path.name} has {len(kept)} cells, not {len(made)}"


def main() -> None:
    """Write the notebooks, or check them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="which; all without any")
    parser.add_argument("--check", action="store_true", help="only compare")
    given = parser.parse_args()
    chosen = [s for s in sources() if not given.names or s.stem in given.names]
    if given.check:
        problems = list(filter(None, map(stale, chosen)))
        sys.exit("\n".join([*problems, "run: python tools/notebooks.py"]) if problems else 0)
    for source in chosen:
        nbformat.write(make(source), stored(source))
        print(f"{stored(source).relative_to(ROOT)}: {stored(source).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
