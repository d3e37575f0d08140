"""One release from start to end: what is public first, refusals that help, notes, stored answers."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import veilsum as vs
from tests.asking.tables import BINS, KWH, REGIONS, columns, write_csv
from veilsum import asking, questions
from veilsum.asking.settling import settle
from veilsum.asking.shares import normalised, shares_of
from veilsum.errors import QuestionError
from veilsum.questions import By, Category


def test_an_answer_is_near_the_truth(tmp_path: Path) -> None:
    """Noise of 95%: 8 times its width, a false alarm below 1e-9."""
    table = columns(2000)
    reply = asking.ask(table, KWH, epsilon=1.0, budget=tmp_path / "b")
    found = reply.decoded[0][0]
    truth = np.clip(table["kwh"], 0, 40).mean()
    assert abs(found.value - truth) < 8 * (found.high - found.low) / 2
    assert (reply.records, reply.unit, reply.stored, reply.where) == (2000, "one row", False, "")
    assert "count as the bounds" in reply.notes[0]


def test_asking_again_costs_nothing_and_fresh_pays(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", columns())
    first = asking.ask(path, KWH, epsilon=1.0, limit=3.0)
    again = asking.ask(path, KWH, epsilon=1.0)
    assert (again.stored, again.epsilon_spent) == (True, 1.0)
    assert again.decoded[0][0].value == first.decoded[0][0].value
    assert re.fullmatch(r"\d+ [A-Z][a-z]+ \d{4}", again.date)
    fresh = asking.ask(path, KWH, epsilon=1.0, fresh=True)
    assert (fresh.stored, fresh.epsilon_spent) == (False, 2.0)
    assert fresh.decoded[0][0].value != first.decoded[0][0].value
    newest = asking.ask(path, KWH, epsilon=1.0)
    assert newest.stored
    assert newest.decoded[0][0].value == fresh.decoded[0][0].value
    other = asking.ask(path, KWH, epsilon=1.0, missing="out")
    assert not other.stored


def test_a_filter_makes_the_number_private_unless_it_is_asked_for(tmp_path: Path) -> None:
    table = columns(3000)
    inside = sum(r == "north" for r in table["region"])
    reply = asking.ask(
        table, KWH, epsilon=2.0, where={"region": "north"}, budget=tmp_path / "b", limit=9
    )
    assert reply.records is None
    assert reply.where == "region north"
    assert reply.questions[0].partial
    count = next(one for one in reply.decoded[0] if one.quantity == "records")
    assert count.value == pytest.approx(inside, abs=60)
    public = asking.ask(
        table,
        KWH,
        epsilon=2.0,
        where={"region": ["north"]},
        rows_public=True,
        budget=tmp_path / "b",
    )
    assert public.records == inside
    assert "published as it is" in public.notes[1]
    assert public.unit == "one row where region north"
    hidden = asking.ask(table, KWH, epsilon=2.0, rows_public=False, budget=tmp_path / "b")
    assert hidden.records is None
    assert hidden.questions[0].partial


def test_rows_left_out_are_counted_with_noise(tmp_path: Path) -> None:
    table = columns(3000)
    for k in range(500):
        table["kwh"][k] = None
    reply = asking.ask(table, KWH, epsilon=2.0, missing="out", budget=tmp_path / "b")
    note = next(one for one in reply.notes if "left out" in one)
    about = int(re.search(r"about ([\d,]+) of 3,000", note)[1].replace(",", ""))  # type: ignore[index]
    assert about != 500 or "noised" in note
    assert abs(about - 500) < 60


def test_several_questions_share_epsilon(tmp_path: Path) -> None:
    reply = asking.ask(columns(), KWH, BINS, REGIONS, epsilon=1.0, budget=tmp_path / "b")
    assert len(reply.decoded) == 3
    assert sum(map(Fraction, reply.shares)) == 1
    assert reply.epsilon_spent == 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_shares_make_noise_equal_beside_sampling(delta: float) -> None:
    asked = [KWH, BINS, By(question=KWH, group=Category("region", ("a", "b", "c")))]
    settled = settle(asked, epsilon=0.1, delta=delta)
    ratios = []
    for one in settled.asked:
        found = one.question.forecast(100_000, one.noises[0])
        ratios.append(found.half / found.sampling)
    assert max(ratios) / min(ratios) < 1.1
    equal = [Fraction(1, 3)] * 3
    assert tuple(equal) != tuple(one.share for one in settled.asked)


def test_shares_add_up_exactly_and_starve_nobody() -> None:
    for weights in ([1.0, 3.0], [1e-9, 1.0, 1.0], [0.0, 0.0], [1.0] * 7, [1e-300, 1e300]):
        found = normalised(weights)
        assert sum(found) == 1
        assert min(found) > 0
    assert sum(shares_of([KWH], [KWH.statistic], 1.0)) == 1


def test_a_refusal_says_first_what_would_help_and_it_does(tmp_path: Path) -> None:
    table = columns(30)
    bins = questions.histogram("kwh", between=(0, 40), bins=20)
    with pytest.raises(QuestionError) as caught:
        asking.ask(table, bins, epsilon=0.1, budget=tmp_path / "b", limit=99)
    first = str(caught.value).split(". With")[0]
    found = re.fullmatch(
        r"epsilon ([\d.e+]+), or ([\d,]+) rows, or .* would make this useful", first
    )
    assert found, first
    epsilon, rows = float(found[1]), int(found[2].replace(",", ""))
    asking.ask(table, bins, epsilon=epsilon, budget=tmp_path / "b", limit=99)
    asking.ask(columns(rows), bins, epsilon=0.1, budget=tmp_path / "rows")
    with pytest.raises(QuestionError):
        asking.ask(table, bins, epsilon=epsilon * 0.8, budget=tmp_path / "b")
    with pytest.raises(QuestionError):
        asking.ask(columns(int(rows * 0.7)), bins, epsilon=0.1, budget=tmp_path / "fewer")
    reply = asking.ask(table, bins, epsilon=0.1, anyway=True, budget=tmp_path / "b")
    assert reply.epsilon_spent == pytest.approx(epsilon + 0.1)


def test_fewer_bins_are_offered_where_they_help(tmp_path: Path) -> None:
    bins = questions.histogram("kwh", between=(0, 40), bins=900)
    with pytest.raises(QuestionError, match=r"or (\d+) bins would make this useful") as caught:
        asking.ask(columns(400), bins, epsilon=0.3, budget=tmp_path / "b")
    fewer = int(re.search(r"or (\d+) bins", str(caught.value))[1])  # type: ignore[index]
    asking.ask(
        columns(400), questions.histogram("kwh", between=(0, 40), bins=fewer), epsilon=0.3,
        budget=tmp_path / "b",
    )  # fmt: skip


def test_a_refusal_does_not_depend_on_a_private_number(tmp_path: Path) -> None:
    reply = asking.ask(columns(3), KWH, epsilon=0.5, rows_public=False, budget=tmp_path / "b")
    assert reply.epsilon_spent == 0.5


def test_a_number_that_is_asked_for_is_private(tmp_path: Path) -> None:
    """Neither the reply nor an end of an interval says how many there are."""
    table = columns(300)
    count = asking.ask(table, questions.count(), epsilon=1.0, budget=tmp_path / "b", limit=99)
    ids = asking.ask(table, questions.distinct(), epsilon=1.0, id="person", budget=tmp_path / "b")
    for reply in (count, ids):
        assert reply.records is None
        found = reply.decoded[0][0]
        assert found.high - found.value == pytest.approx(found.value - found.low)
    some = asking.ask(
        table, questions.count(), epsilon=1.0, where={"region": "north"}, budget=tmp_path / "b"
    )
    assert some.decoded[0][0].high <= 300


def test_what_has_no_meaning_is_refused(tmp_path: Path) -> None:
    ask = partial(asking.ask, columns(), epsilon=1.0, budget=tmp_path / "b")
    with pytest.raises(QuestionError, match="is not asked by region"):
        ask(REGIONS, by=("region", ("north",)))
    with pytest.raises(QuestionError, match="leave out cap"):
        ask(KWH, id="person", cap=2, population=True)
    with pytest.raises(QuestionError, match="adds up rows"):
        ask(questions.sum("kwh", between=(0, 40)), id="person")
    with pytest.raises(QuestionError, match="independent records"):
        ask(questions.test("region", null=0.4, alternative=0.5, value="north"), id="person")


def test_clipped_asks_how_many_values_are_beyond_the_bounds(tmp_path: Path) -> None:
    mean = questions.mean("kwh", between=(0, 20))
    reply = asking.ask(columns(3000), mean, epsilon=2.0, clipped=True, budget=tmp_path / "b")
    assert [one.name for one in reply.questions] == ["mean", "clipped"]
    beyond = np.mean(np.array(columns(3000)["kwh"]) > 20)
    assert reply.decoded[1][0].value[-1] == pytest.approx(beyond, abs=0.05)


def test_terms_tell_apart_what_shapes_the_vector() -> None:
    options = [
        {}, {"id": "person"}, {"id": "person", "cap": 2}, {"where": {"region": "a"}}, {"missing": "out"},
        {"where": {"region": "a"}, "rows_public": True}, {"missing": 3}, {"rows_public": False},
        {"by": ("region", ("a", "b"))}, {"delta": 1e-6}, {"sql": "select * from data"}, {"decimal": ","},
    ]  # fmt: skip
    terms = {settle([KWH], epsilon=1.0, **one).terms for one in options}  # type: ignore[arg-type]
    assert len(terms) == len(options)
    assert settle([KWH], epsilon=1.0, where={"region": ["a"]}).terms in terms


def test_vs_ask_is_a_sheet(tmp_path: Path) -> None:
    answers = vs.ask(columns(), KWH, epsilon=1, budget=tmp_path / "b")
    assert 10 < answers.value < 20
    assert "may be published" in str(answers)


HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "pwd", "grp", "resource", "termios", "posix_ipc", "pty", "tty", "syslog"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules.pop(name, None)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_asking_needs_nothing_that_only_posix_has(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", columns())
    ask = (
        "import veilsum as vs\n"
        "mean = vs.questions.mean('kwh', between=(0, 40))\n"
        f"print(vs.ask({str(path)!r}, mean, epsilon=1, id='person').value)\n"
    )
    assert 5 < float(run(HIDE + ask)) < 25


def test_a_mean_of_a_csv_loads_little(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", columns())
    code = (
        "import sys, veilsum.asking as asking, veilsum.questions as questions\n"
        f"asking.ask({str(path)!r}, questions.mean('kwh', between=(0, 40)), epsilon=1)\n"
        "print(*sys.modules)"
    )
    heavy = {"scipy", "pandas", "pyarrow", "duckdb", "polars", "narwhals", "matplotlib", "networkx",
             "pydantic", "rich", "typer", "openpyxl", "jinja2"}  # fmt: skip
    assert not set(run(code).split()) & heavy
