"""Narrow terminals: no table of run, sweep or plan cuts a digit or leaves out a column."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from veilsum.cli import display
from veilsum.cli.app import app

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

SCENARIO = """
name = "narrow"
seed = 3
replicas = 2

[network]
graph = "ring:9"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 300.0]
unit = "kWh"

[signals]
draw = { mu = 123.0 }

[privacy]
protect = "signal"
epsilon = 1.25
radius = 0.001

[algorithm]
name = "average"
rounds = 100

[[variant]]
name = "a-variant-with-a-long-name"

[[variant]]
name = "masked"
privacy = { mode = "masked", colluders = 2, absent = 1 }
algorithm = { name = "masked-learn", rounds = 100 }
"""
COMMANDS = {
    "run": ["run", "--no-figures", "--out", "out"],
    "sweep": ["sweep", "--no-figures", "--out", "out"],
    "plan": ["plan", "--no-figures", "--error", "0.5", "--colluders", "2"],
}


class Shown:
    """What a command prints on a terminal of a width, and the tables that it was asked to print."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
        self.out, self.tables = io.StringIO(), list[tuple[Any, Any, int]]()
        made = display.table

        def recorded(columns: Any, rows: Any, numbers: int = 0) -> Any:
            kept = [tuple(row) for row in rows]
            self.tables.append((columns, kept, numbers))
            return made(columns, kept, numbers)

        monkeypatch.setattr(display, "table", recorded)
        monkeypatch.setattr(
            display,
            "console",
            lambda: Console(file=self.out, width=width, highlight=False, markup=False),
        )

    @property
    def printed(self) -> str:
        """All of it."""
        return self.out.getvalue()


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_table_loses_a_digit_or_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("narrow.toml").write_text(SCENARIO)
    shown = Shown(monkeypatch, width)
    verb, *options = COMMANDS[command]
    done = CliRunner().invoke(app, [verb, "narrow.toml", *options])
    assert done.exit_code == 0, done.output
    lines, words = shown.printed.splitlines(), shown.printed.split()
    assert any("guarantee" in columns for columns, _, _ in shown.tables)
    for columns, rows, numbers in shown.tables:
        for row in (columns, *rows):
            assert all(any(cell in line for line in lines) for cell in row[len(row) - numbers :])
            assert {word for cell in row for word in cell.split()} <= set(words)
            rules = [line for line in lines if line.startswith("──")]
            assert all(len(line) <= width for line in rules)


def test_what_was_cut_is_whole() -> None:
    cells = ("masked-online", "100 x 230", "0.0002704")
    out = io.StringIO()
    made = display.table(("variant", "rounds", "CoP"), [cells], numbers=2)
    Console(file=out, width=24, highlight=False, markup=False).print(made)
    assert all(any(cell in line for line in out.getvalue().splitlines()) for cell in cells[1:])


def test_a_name_wider_than_the_terminal_is_wrapped() -> None:
    out = io.StringIO()
    made = display.table(("variant", "guarantee"), [("x" * 100, "proved")])
    Console(file=out, width=40, highlight=False, markup=False).print(made)
    assert out.getvalue().count("x") == 100
    assert "proved" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 40


def test_a_table_of_one_column_and_of_no_rows() -> None:
    out = io.StringIO()
    console = Console(file=out, width=40, highlight=False, markup=False)
    console.print(display.table(("name",), [("one",), ("two",)]))
    console.print(display.table(("name", "value"), [], numbers=1))
    assert out.getvalue().split() == ["name", "─" * 5, "one", "two", "name", "value", "─" * 12]
