"""Verdicts: the same for every seed, the same as in the docs, and about what the paper says."""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from murmura_data import data  # noqa: F401 - a fixture for all

from murmura import paper
from murmura.network import row_stochastic
from murmura.paper import expected, extensions, fair, sweeps
from murmura.paper.entry import Context, Origin, Verdict, counts
from murmura.paper.runner import SKIPPED, lasting
from murmura.paper.settings import GLOBAL, HOUSEHOLDS, US, Run, perform

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((ROOT / "docs" / "verdicts.json").read_text(encoding="utf-8"))
SEEDS = range(8)
QUICK = ["theorems", "tightness", "optimal-noise", "fig-data", "fig-directed", "fig-dynamic"]
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
TINY = 1e-6  # rounding errors and vanished disagreement differ between machines


def numbers(sentence):
    return np.array([float(n.replace(",", "")) for n in NUMBER.findall(sentence)])


def renewed(id, folder):
    """The entry's part of the record, computed anew."""
    (report,) = paper.reproduce(paper.find([id]), folder, seed=0)
    if report.verdict == SKIPPED:
        pytest.skip(report.reason)
    return lasting([report])["entries"][0]


def compare(id, folder):
    held = deepcopy(next(entry for entry in RECORD["entries"] if entry["id"] == id))
    found = renewed(id, folder)
    for old, new in zip(held.pop("findings"), found.pop("findings"), strict=True):
        one, two = numbers(old.pop("sentence")), numbers(new.pop("sentence"))
        assert old == new
        np.testing.assert_allclose(two, one, rtol=0.03, atol=TINY)
    assert held == found


@pytest.mark.parametrize("id", QUICK)
def test_the_record_in_the_docs_is_what_a_run_finds(id, tmp_path):
    """The docs print the verdicts and the numbers that `murmura reproduce` prints."""
    compare(id, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("id", [id for id in paper.names() if id not in QUICK])
def test_all_of_the_record_is_what_a_run_finds(id, tmp_path):
    compare(id, tmp_path)


def test_the_record_has_every_statement_with_its_words():
    """A statement that is added or reworded and not judged anew fails here, in no time."""
    held = {
        entry["id"]: [(f["statement"], f["origin"], f["quote"]) for f in entry["findings"]]
        for entry in RECORD["entries"]
    }
    assert held == {
        id: [(c.statement, str(c.origin), c.quote) for c in entry.claims]
        for id, entry in paper.ENTRIES.items()
    }
    assert list(held) == paper.names()


def test_a_statement_counts_once_with_its_worst_verdict():
    """A quote tried on both networks used to count twice, once confirmed and once corrected."""
    both = [
        {"origin": "paper", "quote": "q", "statement": s, "verdict": v}
        for s, v in (("on one", "confirmed"), ("on two", "corrected"), ("again", "confirmed"))
    ]
    ours = [{"origin": "murmura", "quote": "", "statement": s, "verdict": "refuted"} for s in "aab"]
    found = counts([*both, *ours])
    assert found[Origin.PAPER] == {"confirmed": 0, "corrected": 1, "refuted": 0}
    assert found[Origin.MURMURA] == {"confirmed": 0, "corrected": 0, "refuted": 2}
    findings = [f for entry in RECORD["entries"] for f in entry["findings"]]
    quotes = {f["quote"] for f in findings if f["quote"]}
    assert sum(counts(findings)[Origin.PAPER].values()) == len(quotes)


def test_all_verdicts_are_of_one_vocabulary():
    said = {f["verdict"] for entry in RECORD["entries"] for f in entry["findings"]}
    assert said <= set(Verdict)


def test_quotes_are_in_the_paper():
    """Set MURMURA_PAPER to the paper's TeX source; murmura ships no copy."""
    source = os.environ.get("MURMURA_PAPER")
    if not source:
        pytest.skip("MURMURA_PAPER is not set")
    text = " ".join(Path(source).read_text(encoding="utf-8").split())
    heads = re.findall(r"\\(?:sub)*section\*?\{[^}]*\}|\\toprule[^$]*?\\\\", text)
    assert len(heads) > 10
    for entry in paper.ENTRIES.values():
        for claim in entry.claims:
            quote = " ".join(claim.quote.split())
            assert quote in text, claim.statement
            assert not quote or not any(quote in head for head in heads), claim.statement


def shortened(run, context, record=None, where=None):
    """A run of ten rounds: verdicts read what is expected, not what is drawn."""
    short = replace(run, rounds=10, replicas=2)
    return perform(short, context, record, where)


def test_noise_in_every_round_has_one_verdict_for_every_seed(monkeypatch):
    """Expected errors decide, and no replica of the random walk."""
    monkeypatch.setattr(extensions, "perform", shortened)
    entry = paper.ENTRIES["fig-naive"]
    for seed in SEEDS:
        measured = entry.measure(entry, Context(seed))
        assert entry.claims[0].check(measured).verdict is Verdict.CONFIRMED


def test_the_households_curves_have_one_verdict_for_every_seed(monkeypatch):
    """Expected errors decide, and no replica of the heavy-tailed mean."""
    monkeypatch.setattr(sweeps, "perform", shortened)
    monkeypatch.setattr(fair, "compared", lambda *_: ())
    entry = paper.ENTRIES["fig-mse-households"]
    needed = [r for r in entry.runs if r.name.startswith(sweeps.OURS)]
    needed += [r for r in entry.runs if r.name.startswith(f"{sweeps.CODED}: offline")]
    entry = replace(entry, runs=tuple(needed))
    for seed in SEEDS:
        measured = entry.measure(entry, Context(seed))
        online, both, agrees = (claim.check(measured).verdict for claim in entry.claims[1:])
        assert (online, both) == (Verdict.CONFIRMED, Verdict.CORRECTED)
        assert agrees is Verdict.CONFIRMED


@pytest.mark.parametrize("id", ["fig-directed", "fig-dynamic"])
def test_small_entries_have_one_verdict_for_every_seed(id):
    entry, held = paper.ENTRIES[id], next(e for e in RECORD["entries"] if e["id"] == id)
    for seed in SEEDS if id == "fig-directed" else range(1, 3):
        measured = entry.measure(entry, Context(seed))
        found = [str(claim.check(measured).verdict) for claim in entry.claims]
        assert found == [f["verdict"] for f in held["findings"]], seed


def test_what_one_way_links_are_judged_by_is_the_same_for_every_seed():
    """A graph drawn with the run's seed crossed the line at these five of 700 seeds.

    The graph is fixed now; what is drawn, the signals, decides with a chance near 1e-12.
    """
    entry = paper.ENTRIES["fig-directed"]
    held = entry.measure(entry, Context(0))
    for seed in (130, 230, 582, 667, 692):
        measured = entry.measure(entry, Context(seed))
        for name in ("limits", "stationary"):
            pd.testing.assert_frame_equal(measured.tables[name], held.tables[name])
        found = [claim.check(measured).verdict for claim in entry.claims]
        assert found == [Verdict.CONFIRMED, Verdict.CORRECTED]


def test_one_way_links_have_one_verdict_for_a_thousand_draws_of_signals():
    """The distance of the weighted from the uniform mean, without the rounds in between."""
    graph = extensions.directed_graph()
    A = row_stochastic(graph).at(1).toarray()
    q = np.linalg.matrix_power(A, 4096)[0]
    off = [
        abs((q - 1 / len(q)) @ np.random.default_rng(seed).normal(1.67, 1.04, len(q)))
        for seed in range(1000)
    ]
    assert min(off) > 1e-6  # push-sum comes within 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("id", paper.names())
def test_every_entry_has_one_verdict_for_every_seed(id, tmp_path):
    """All of them in full, over eight seeds."""
    held = next(e for e in RECORD["entries"] if e["id"] == id)
    for seed in SEEDS:
        (report,) = paper.reproduce(paper.find([id]), tmp_path / str(seed), seed=seed)
        if report.verdict == SKIPPED:
            pytest.skip(report.reason)
        found = [f["verdict"] for f in report.findings]
        assert found == [f["verdict"] for f in held["findings"]], seed


def test_second_moments_of_printed_scales_are_exact():
    """Against a million draws, with and without a floor and a neighbour's weight; 6 errors."""
    s = np.exp(np.random.default_rng(2).normal(1.67, 1.04, 1_000_000))
    for a, c, floor in ((0.0, 2.0, 0.0), (0.5, 2.0, 0.0), (0.5, 2.0, 1.0), (3.0, 2.0, 1.0)):
        b = np.maximum(a, c / np.maximum(s, floor)) ** 2
        error = b.std() / 1000
        exact = float(expected.squared_scale(a, c, 1.67, 1.04, floor))
        assert abs(b.mean() - exact) <= 6 * error + 1e-9
    y = np.maximum(np.log(s), 0.5)
    mean, deviation = expected.clipped(1.67, 1.04, 0.5)
    assert abs(y.mean() - mean) < 6e-3
    assert abs(y.std() - deviation) < 6e-3


@pytest.mark.parametrize("law", ["average", "learn", "learn-network"])
def test_expected_errors_are_those_of_runs(law):
    """Households for 30 rounds, printed noise: 400 replicas, 6 standard errors."""
    run = Run("r", HOUSEHOLDS, law, epsilons=(1.0,), rounds=30, replicas=400)
    found, trace = expected.expected(run), perform(run, Context(3)).trace
    for exact, measured in (
        (found.privacy[-1, 0], trace.privacy[-1, 0]),
        (found.decentralisation[-1], trace.decentralisation[-1]),
    ):
        squares = measured**2
        error = squares.std() / np.sqrt(squares.size)
        assert abs(squares.mean() - exact**2) < 6 * error
    clean, private = expected.truth(found)
    assert private[-1, 0] >= clean[-1] > 0


def test_where_scales_differ_between_thousands_of_agents_nothing_is_promised():
    assert expected.expected(Run("r", US, "average", "network", epsilons=(1.0,), rounds=3)) is None


def test_the_fair_baseline_is_tuned_and_has_our_noise():
    """Its step is the best of those tried, and stopping where it errs least is no worse."""
    rows = fair.compared(HOUSEHOLDS, True)
    assert [row["epsilon"] for row in rows] == list(fair.EPSILONS)
    ours = Run("o", HOUSEHOLDS, "average", epsilons=fair.EPSILONS, sensitivity=GLOBAL, bounded=True)
    for k, row in enumerate(rows):
        assert row["theirs_stopped"] <= row["theirs"]
        assert row["ours"] < row["theirs"]
        exact = expected.expected(ours, True).total[-1, k]
        assert row["ours"] == pytest.approx(exact, rel=1e-9)
