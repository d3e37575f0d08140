"""run and sweep on a real terminal: one screen, nothing cut, a bar, and Ctrl-C within a second."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.front.studies import EXAMPLES, MEASURED, READINGS, many, study, vector
from tests.front.terminals import WIDTHS, Shown, on_terminal
from veilsum.front import terminal

ESCAPE = "\x1b"
GRID = EXAMPLES / "us-power-grid.toml"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Shown]:
    """The main example at every width."""
    folder = tmp_path_factory.mktemp("grid")
    return {
        columns: on_terminal("run", GRID, columns=columns, folder=folder, patience=300)
        for columns in WIDTHS
    }


def check_screen(shown: Shown, columns: int) -> None:
    """No line is longer than the terminal, and no number is cut: each is a whole word."""
    assert shown.code == 0, shown.errors
    assert max(map(len, shown.lines)) <= columns
    assert "…" not in shown.text
    assert "..." not in "".join(line for line in shown.lines if "more" not in line)


def table(shown: Shown) -> dict[str, list[str]]:
    """The words of each row by its name."""
    start = next(k for k, line in enumerate(shown.lines) if line.startswith("PROVED"))
    end = shown.lines.index("", start)
    return {
        line.split()[0]: line.split()
        for line in shown.lines[start:end]
        if line.startswith("  ") and not line.startswith("   ")
    }


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_main_example_fits(grid: dict[int, Shown], columns: int) -> None:
    check_screen(grid[columns], columns)
    rows = table(grid[columns])
    assert len(rows) == 12
    assert all({"±", "1"} & set(words) for words in rows.values())
    assert ESCAPE in grid[columns].raw, "verdicts are in colour"


def test_the_main_example_is_one_screen(grid: dict[int, Shown]) -> None:
    shown = grid[80]
    assert len(shown.lines) <= 30
    assert len(shown.text.split()) <= 220
    headings = [line for line in shown.lines if line.split(",")[0].isupper()]
    assert headings == [
        "PROVED, one signal each", "PROVED, a stream", "REFUTED, one signal each",
        "REFUTED, a stream",
    ]  # fmt: skip
    assert next(iter(table(shown))) == "masked", "best proved first"
    assert {"us-power-grid.html"} <= set(shown.text.split())


def test_numbers_are_the_same_at_every_width(grid: dict[int, Shown]) -> None:
    narrow, wide = table(grid[60]), table(grid[120])
    for name, words in narrow.items():
        assert words == wide[name][: len(words)]
        assert words[2] == "±"


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("kind", ["vector", "measured", "sweep"])
def test_other_studies_fit(tmp_path: Path, kind: str, columns: int) -> None:
    text = {"vector": vector(6), "measured": MEASURED, "sweep": many(50)}[kind]
    words = ["sweep", "--epsilon", "0.25:8:6"] if kind == "sweep" else ["run"]
    file = study(tmp_path, text)
    shown = on_terminal(words[0], file, *words[1:], columns=columns, folder=tmp_path)
    check_screen(shown, columns)
    assert len(shown.lines) <= 34
    if kind == "vector":
        assert sum("#" in line for line in shown.lines) >= 1
    if kind == "measured":
        assert "error" not in shown.text
        assert not [value for value in READINGS if f"{value:.4f}"[:5] in shown.text]
    if kind == "sweep":
        assert "284 more, in small-sweep.csv" in " ".join(shown.text.split())


def command(*words: object, folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False, **more,
    )  # fmt: skip


def test_a_pipe_gets_plain_text_of_80_columns(tmp_path: Path) -> None:
    asked = os.environ | {"COLUMNS": "200", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = command("-m", "veilsum.cli", "run", study(tmp_path), folder=tmp_path, env=asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert ESCAPE not in done.stdout
    assert "\r" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_no_colour_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name, value, coloured in (("NO_COLOR", "1", False), ("TERM", "dumb", False)):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert terminal._coloured()
        monkeypatch.setenv(name, value)
        assert terminal._coloured() is coloured


def test_without_matplotlib_a_run_answers_and_says_what_it_did_not_draw(tmp_path: Path) -> None:
    file = study(tmp_path)
    start = ("-m", "tests.light.without", "-m", "veilsum.cli", "run", file, "--out", tmp_path / "o")
    root = Path(__file__).resolve().parents[2]
    without = os.environ | {"WITHOUT": "matplotlib"}
    done = command(*start, folder=root, env=without)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PROVED" in done.stdout
    assert done.stdout.count("No pictures: matplotlib is not installed (pip install ") == 1
    assert (tmp_path / "o.csv").exists()
    page = (tmp_path / "o.html").read_text()
    assert "<svg" not in page
    assert "No pictures: matplotlib is not installed" in page
    refused = command(*start, "--plot", tmp_path / "fig.pdf", folder=root, env=without)
    assert refused.returncode == 1
    assert "--plot needs matplotlib" in refused.stderr
    with_it = command("-m", "veilsum.cli", "run", file, "--out", tmp_path / "p", folder=root)
    assert "No pictures" not in with_it.stdout, "the weakened variant"


# Time


LONG = """
[network]
graph = "us-power-grid"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 1.0 }
[privacy]
protect = "signal"
epsilon = [0.5, 1.0, 2.0]
[algorithm]
name = "learn"
rounds = 200000
[record]
estimates = false
"""
SLOW_PAGE = """
import time
from veilsum.front import plot
usual = plot.pictures
def pictures(answers):
    print("DRAWING", flush=True)
    for _ in range(100_000):
        usual(answers)
plot.pictures = pictures
from veilsum.cli import main
main()
"""


def test_ctrl_c_ends_a_simulation_within_a_second(tmp_path: Path) -> None:
    file = study(tmp_path, LONG)
    shown = on_terminal("run", file, folder=tmp_path, interrupt="%")  # the bar is there
    assert shown.code == 130
    assert shown.ended < 1.0
    assert shown.errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in shown.errors
    assert not list(tmp_path.glob("*.html"))


def test_ctrl_c_ends_a_page_within_a_second(tmp_path: Path) -> None:
    """Pictures are drawn for minutes here; nothing half-written stays."""
    file = study(tmp_path)
    shown = on_terminal("run", file, folder=tmp_path, interrupt="DRAWING", program=SLOW_PAGE)
    assert shown.code == 130, shown.errors
    assert shown.ended < 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["readings.csv", "s.toml"]


def test_the_bar_goes_on_while_the_page_is_drawn(tmp_path: Path) -> None:
    file = study(tmp_path)
    slow = SLOW_PAGE.replace("for _ in range(100_000):", "end = time.monotonic() + 3\n    "
                             "while time.monotonic() < end:").replace(
        "usual(answers)\nplot", "usual(answers)\n    return usual(answers)\nplot"
    )  # fmt: skip
    shown = on_terminal("run", file, folder=tmp_path, program=slow)
    assert shown.code == 0, shown.errors
    assert "page" in shown.errors


def test_a_bar_is_shown_only_after_two_seconds_and_on_a_terminal(monkeypatch: Any) -> None:
    for late, screen, shown in ((True, True, True), (False, True, False), (True, False, False)):
        monkeypatch.setattr(terminal, "PATIENCE", 0.0 if late else 60.0)
        monkeypatch.setattr(sys.stderr, "isatty", lambda screen=screen: screen)
        with terminal.Bar() as bar:
            bar.step("a", 1, 2)
            bar.timer.join(5 if shown else 0.2) if screen else None
            assert (bar.display is not None) == shown
        assert not bar.timer.is_alive(), "no thread stays"


def test_a_number_is_a_word_of_its_own() -> None:
    """What the check of cut cells stands on: rich would have written 10.0…"""
    cut = Shown("PROVED\n  a  10.0…\n\n", "", "", 0, 0.0)
    with pytest.raises(AssertionError):
        check_screen(cut, 80)
