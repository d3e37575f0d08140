"""Checks turn numbers into verdicts: made-up tables on either side of each line."""

from __future__ import annotations

import pandas as pd
import pytest

from murmura.paper import extensions, headline, heterogeneous, sample_paths, sweeps, tables
from murmura.paper.entry import Measured, Verdict
from murmura.paper.settings import US


def sweep(first_order: float, scale: float = 1.0) -> Measured:
    rows = []
    for method, factor in (
        (sweeps.OURS, 1.0),
        (sweeps.PRINTED, first_order),
        (sweeps.CODED, first_order),
    ):
        for name, known in sweeps.AUTHORS[US].items():
            for epsilon in (0.125, 1.0):
                cop = scale * factor * known[epsilon]
                rows.append({"method": method, "algorithm": name, "epsilon": epsilon,
                             "cop": cop, "te": cop})  # fmt: skip
    return Measured({"": pd.DataFrame(rows)})


@pytest.mark.parametrize(("times", "verdict"), [(1000, "confirmed"), (20, "corrected")])
def test_a_thousandfold_is_at_least_hundreds(times, verdict):
    finding = sweeps.thousandfold(sweep(times))
    assert finding.verdict == verdict
    assert f"offline-signal {times:.3g}," in finding.sentence


@pytest.mark.parametrize(("scale", "verdict"), [(1.1, "confirmed"), (4.0, "corrected")])
def test_the_authors_numbers_are_compared(scale, verdict):
    finding = sweeps.agrees(US).check(sweep(1.0, scale))
    assert finding.verdict == verdict
    assert f"ratio {scale:.2f}" in finding.sentence


def test_curves_must_fall():
    assert sweeps.falls(sweep(1.0)).verdict is Verdict.CONFIRMED
    rising = sweep(1.0)
    rising.table["cop"] = 1 / rising.table["cop"]
    assert sweeps.falls(rising).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("offline", "verdict"), [(6.0, Verdict.CONFIRMED), (1e-5, Verdict.REFUTED)]
)
def test_online_is_faster_while_mixing_is_slow(offline, verdict):
    cods = {"offline-signal": offline, "online-signal": 1.0, "online-network": 3.0}
    rows = [{"variant": k, "round": t, "cod": v} for k, v in cods.items() for t in (0, 9)]
    measured = Measured({"": pd.DataFrame(rows)})
    assert sample_paths.online_is_faster(measured).verdict is verdict
    assert sample_paths.learn_is_faster(measured).verdict is Verdict.CONFIRMED


@pytest.mark.parametrize(
    ("power", "printed", "verdict"),
    [
        (0.5, 0.5, Verdict.CONFIRMED),
        (0.5, 0.1, Verdict.CORRECTED),
        (0.0, 0.5, Verdict.REFUTED),
    ],
)
def test_a_random_walk_is_recognised(power, printed, verdict):
    powers = {"noise in every round": power, extensions.AS_PRINTED: printed}
    rows = [
        {"variant": name, "round": t, "cop": 2 * max(t, 1) ** slope}
        for name, slope in powers.items()
        for t in range(101)
    ]
    rows += [{"variant": "noise at the start", "round": t, "cop": 1.0} for t in range(101)]
    finding = extensions.diverges(Measured({"": pd.DataFrame(rows)}))
    assert finding.verdict is verdict
    assert f"power of {power:.2f}" in finding.sentence.replace("-0.00", "0.00")
    assert f"the power is {printed:.2f}" in finding.sentence


def audit(paper_refuted: bool, ours_refuted: bool) -> Measured:
    rows = [
        {"method": method, "algorithm": "a", "epsilon": 1.0, "promise": promise,
         "audit_at_least": 7.0 if refuted else 0.9, "audit_delta_at_least": 0.0,
         "audit_refuted": refuted}
        for method, promise, refuted in (
            ("paper", "claimed", paper_refuted), ("murmura", "proved", ours_refuted)
        )
    ]  # fmt: skip
    return Measured({"": pd.DataFrame(rows)})


@pytest.mark.parametrize(
    ("paper_refuted", "ours_refuted", "verdict"),
    [(True, False, "refuted"), (False, False, "confirmed"), (True, True, "corrected")],
)
def test_an_attack_refutes(paper_refuted, ours_refuted, verdict):
    finding = headline.holds(audit(paper_refuted, ours_refuted))
    assert finding.verdict == verdict
    assert ("at least 7" in finding.sentence) == (paper_refuted or ours_refuted)


@pytest.mark.parametrize(("overhead", "verdict"), [(0.8, "corrected"), (1.2, "refuted")])
def test_the_overhead_lies_between_its_bounds(overhead, verdict):
    rows = [{"variant": "central: online", "overhead": overhead, "equal": 1.0, "lower": 0.1}]
    assert heterogeneous.bounded(Measured({"": pd.DataFrame(rows)})).verdict == verdict


def test_the_printed_rule_loses_where_a_cap_binds():
    finding = heterogeneous.clipped(Measured({"rules": heterogeneous.rules()}))
    assert finding.verdict is Verdict.CORRECTED
    assert "76.417 against 70.267" in finding.sentence


@pytest.mark.parametrize(("bound", "verdict"), [(3.0, "confirmed"), (1.0, "refuted")])
def test_bounds_must_be_above(bound, verdict):
    row = {"place": "p", "algorithm": "a", "te": 2.0, "cod": 2.0, "bound_total": bound,
           "bound_decentralisation": bound}  # fmt: skip
    measured = Measured({"": pd.DataFrame([row])})
    assert tables.below(measured).verdict == verdict
    assert tables.decentralisation(measured).verdict == verdict
