"""plan and audit on real terminals: no cell cut, no column lost in silence, Ctrl-C at once."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.front.terminals import WIDTHS, Shown, on_terminal

STUDY = """
name = "narrow"
title = "Loads of a ring"
seed = 3

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
radius = 1.0

[algorithm]
name = "average"
rounds = 100

[[variant]]
name = "a-variant-with-a-long-name"

[[variant]]
name = "masked"
privacy = { mode = "masked", colluders = 2, absent = 1 }
algorithm = { name = "masked-sum", rounds = 100 }
"""
VERBS = {
    "plan": ["plan", "narrow.toml", "--error", "0.5", "--colluders", "2"],
    "audit": ["audit", "narrow.toml", "--trials", "2000"],
}
LARGE = (
    STUDY.replace('"ring:9"', '"us-power-grid"')
    .replace("bounds = [0.0, 300.0]", "")
    .replace('"normal"', '"log-normal"')
    .replace("radius = 1.0", 'delta = 0.01\nsensitivity = "smooth-as-published"')
    .replace("= 100", "= 1000")
    .partition("[[variant]]")[0]
)  # many rounds on a large network take seconds


def shown(verb: str, columns: int, folder: Path) -> Shown:
    (folder / "narrow.toml").write_text(STUDY)
    return on_terminal(*VERBS[verb], columns=columns, folder=folder)


@pytest.fixture(scope="module", params=VERBS)
def sheet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The verb, and what `--json` says."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "narrow.toml").write_text(STUDY)
    return request.param, json.loads(
        on_terminal(*VERBS[request.param], "--json", folder=folder).text
    )


@pytest.mark.parametrize("columns", WIDTHS)
def test_every_cell_is_whole_and_every_column_named(
    sheet: Any, columns: int, tmp_path: Path
) -> None:
    verb, known = sheet
    there = shown(verb, columns, tmp_path)
    assert there.code == 0, there.errors
    assert max(map(len, there.lines)) <= columns
    assert len(there.lines) <= 40 or columns < 80
    assert ("\x1b[1;32mPROVED" in there.raw) == (verb == "plan")  # no attack proves anything
    assert f"Page narrow-{verb}.html" in there.text
    table = there.text.split("\n\n")[1]
    heads, *rows = table.splitlines()
    said = " ".join(there.text.replace(table, "").split())
    for row in known["answers"]:
        assert any(line.startswith(f"  {row['name']}  ") for line in rows)
    for column in dict.fromkeys(key for row in known["answers"] for key in row["cells"]):
        cells = {row["cells"][column] for row in known["answers"]}
        if re.search(rf"(^|  ){column}(  |$)", heads):
            assert all(
                re.search(rf"  {re.escape(cell)}(  |$)", table, re.M) for cell in cells - {""}
            )
        else:  # in the second line as it says the same in every row, or left out and named
            assert column in said


def test_the_best_candidate_is_the_first_row(tmp_path: Path) -> None:
    there = shown("plan", 80, tmp_path)
    use = re.search(r"Use (\S+) on", there.text)
    assert use is not None
    rows = [line.split()[0] for line in there.lines if re.match(r"  \S+.*\d kWh", line)]
    assert rows[0] == use[1] == "masked-sum"


def test_a_long_plan_shows_a_bar_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text(LARGE)
    there = on_terminal("plan", "large.toml", folder=tmp_path, interrupt="%")
    assert there.code == 130, there.errors[-2000:]
    assert there.ended < 2  # a second, and what a busy machine needs to end a process
    assert "interrupted" in there.errors
    assert not list(tmp_path.glob("*.html"))
