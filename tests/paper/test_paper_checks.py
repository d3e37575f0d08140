"""Checks turn numbers into verdicts: made-up tables on either side of each line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from veilsum.paper import extensions, headline, heterogeneous, sample_paths, sweeps, theorems
from veilsum.paper.experiment import (
    Context,
    Finding,
    Measurement,
    Verdict,
    claims,
    judged,
    shipped,
)
from veilsum.paper.sweeps import EPSILONS, US
from veilsum.privacy.mechanisms import laplace_delta
from veilsum.privacy.published import worst_pair
from veilsum.privacy.sensitivity import factor_as_published
from veilsum.scenario import Scenario

FAIR = pd.DataFrame(
    [{"epsilon": 1.0, "rounds": 100, "average": 1.0, "equal": 2.0, "eta_equal": 0.1, "tuned": 1.0,
      "eta": 1e-9}]
)  # fmt: skip


def judge(id: str, measured: Measurement) -> Finding:
    """What the row of claims.toml finds in a measurement."""
    return claims()[id].check(measured)


def sweep(first_order: float, scale: float = 1.0, network: float = 1.0) -> Measurement:
    rows = []
    for method, factor in (
        (sweeps.OURS, 1.0),
        (sweeps.PUBLISHED, first_order),
        (sweeps.CODED, first_order),
    ):
        for name in sweeps.TASKS:
            known = sweeps.AUTHORS[US].get(f"{name} of {method}", sweeps.AUTHORS[US][name])
            for epsilon, cop in zip(EPSILONS, known, strict=True):
                cop *= scale * factor * (network if "network" in name else 1.0)
                rows.append({"method": method, "task": name, "epsilon": epsilon,
                             "expected_cop": cop, "expected_te": cop, "expected_cod": cop / 2,
                             "mean_cop": cop})  # fmt: skip
    return Measurement({"": pd.DataFrame(rows), "fair": FAIR})


def test_ours_is_smaller_only_if_it_is() -> None:
    """An equal or larger error is not "a smaller error"."""

    def at(**errors: Any) -> Any:
        rows = [
            {"method": m, "task": task, "epsilon": e, "te": te}
            for task, both in errors.items()
            for m, te in zip((headline.PAPER, headline.OURS), both, strict=True)
            for e in headline.EPSILONS
        ]
        return judge("headline-improves", Measurement({"": pd.DataFrame(rows)}))

    assert at(one=(2.0, 1.0)).verdict is Verdict.CONFIRMED
    assert at(one=(2.0, 1.0), two=(1.48, 1.49)).verdict is Verdict.CORRECTED
    assert "not smaller on two" in at(one=(2.0, 1.0), two=(1.0, 1.0)).sentence
    assert at(one=(1.0, 1.0)).verdict is Verdict.REFUTED


@pytest.mark.parametrize(("times", "verdict"), [(1000, "confirmed"), (20, "corrected")])
def test_a_thousandfold_is_at_least_hundreds(times: Any, verdict: Any) -> None:
    """Of norms, and the sentence says why."""
    finding = judge("us-thousandfold", sweep(times))
    assert finding.verdict == verdict
    assert f"offline-signal {times:.3g}," in finding.sentence
    assert "ratios of norms" in finding.sentence
    assert "over T + 1 = 101 releases the noise of the start is T + 1 times" in finding.sentence
    assert "their error 2 times that of Alg. 3" in finding.sentence
    assert "1.000 times that of Alg. 3 (eta = 1e-09, the least that was tried)" in finding.sentence
    assert "ours" not in finding.sentence.partition(" The line is ours: ")[0]


@pytest.mark.parametrize(
    ("published", "coded", "verdict", "met"),
    [
        (1000, 1, "confirmed", "with App. B as published."),
        (1, 1000, "confirmed", "with the authors' code."),
        (1000, 1000, "confirmed", "with App. B as published and with the authors' code."),
        (20, 20, "corrected", "With neither reading of App. B is"),
    ],
)
@pytest.mark.parametrize("id", ["us-thousandfold", "us-up-to-thousandfold"])
def test_either_reading_of_the_baseline_may_be_a_thousandfold(
    id: Any, published: Any, coded: Any, verdict: Any, met: Any
) -> None:
    """And the sentence says which one is."""
    finding = judge(id, times_ours(dict.fromkeys(sweeps.TASKS, published), coded))
    assert finding.verdict == verdict
    assert met in finding.sentence


@pytest.mark.parametrize(
    ("offline", "online", "every", "mvue"),
    [((1.0, 1000.0), 1000.0, "corrected", "confirmed"), ((1.0, 20.0), 1e3, "corrected", "corrected"),
     ((1e5, 1e5), 1e5, "confirmed", "corrected")],
)  # fmt: skip
def test_up_to_is_a_maximum_and_for_the_mvue_task_alone(
    offline: Any, online: Any, every: Any, mvue: Any
) -> None:
    """Sec. 5 speaks of all tasks, Sec. 1.2 of the largest offline ratio, which 1e5 exceeds."""
    ratios = dict(zip(sweeps.TASKS, (*offline, online, online), strict=True))
    measured = times_ours(ratios, 1.0)
    assert judge("us-thousandfold", measured).verdict == every
    assert judge("us-up-to-thousandfold", measured).verdict == mvue


def times_ours(published: dict[str, float], coded: float) -> Measurement:
    """Errors of the paper's algorithms that are 1, and those of the first-order method, by task."""
    ratios = {
        sweeps.OURS: dict.fromkeys(published, 1.0),
        sweeps.PUBLISHED: published,
        sweeps.CODED: dict.fromkeys(published, coded),
    }
    rows = [
        {"method": method, "task": task, "epsilon": 1.0, "expected_te": ratio,
         "expected_cop": ratio, "expected_cod": ratio}
        for method, each in ratios.items()
        for task, ratio in each.items()
    ]  # fmt: skip
    return Measurement({"": pd.DataFrame(rows), "fair": FAIR})


@pytest.mark.parametrize(("scale", "verdict"), [(1.1, "confirmed"), (4.0, "refuted")])
def test_the_authors_numbers_are_compared(scale: Any, verdict: Any) -> None:
    finding = judge("us-agrees", sweep(1.0, scale))
    assert finding.verdict == verdict
    assert f"ratio {scale:.2f}" in finding.sentence


def test_the_mean_norm_of_one_normal_number() -> None:
    """E |Z| for a standard normal Z, against a million draws; 1% is 13 standard errors."""
    z = np.abs(np.random.default_rng(1).normal(size=1_000_000))
    assert pytest.approx(z.mean(), rel=0.01) == sweeps.HALF_NORMAL


@pytest.mark.parametrize(
    ("network", "online", "both"),
    [
        (1.0, "confirmed", "confirmed"),
        (1e-3, "refuted", "refuted"),
        (0.01, "confirmed", "corrected"),
    ],
)
def test_network_dp_must_be_harder_in_the_tasks_that_are_said(
    network: Any, online: Any, both: Any
) -> None:
    """With Network DP the authors' numbers are at least 48 times larger offline, 157 online.

    A caption about online learning is judged by the online task alone.
    """
    measured = sweep(1.0, network=network)
    assert judge("us-network-is-harder-online", measured).verdict == online
    assert judge("us-network-is-harder", measured).verdict == both


def over_rounds(**errors: Any) -> Measurement:
    rows = [
        {"variant": name, "round": t, "cod": e, "truth_noiseless": e, "truth": e}
        for name, each in errors.items()
        for t, e in enumerate(each)
    ]
    return Measurement({"expected": pd.DataFrame(rows)})


@pytest.mark.parametrize(
    ("behind", "verdict"),
    [(0, "confirmed"), (3, "confirmed"), (4, "corrected"), (39, "corrected"), (40, "refuted")],
)
def test_faster_is_one_rule(behind: Any, verdict: Any) -> None:
    """Ahead from the first tenth of the rounds on, whichever algorithms are compared.

    The rule is the same for Alg. 4 and for the online algorithms.
    """
    slow = np.array([9.0] + [1.0] * behind + [9.0] * (40 - behind))
    online = {"online-signal": np.full(41, 3.0), "online-network": np.full(41, 4.0)}
    measured = over_rounds(**{"offline-signal": slow}, **online)
    assert judge("us-online-is-faster", measured).verdict == verdict
    measured = over_rounds(**{"online-signal": np.full(41, 3.0), "online-network": slow})
    assert judge("us-alg-4-is-faster", measured).verdict == verdict


def at_the_end(**errors: Any) -> Measurement:
    """TE and CoD by algorithm: over rounds where they are lists, else constant."""
    rows = [
        {"variant": name.replace("_", "-"), "round": t, "te": np.resize(te, 41)[t], "cod": cod}
        for name, (te, cod) in errors.items()
        for t in range(41)
    ]
    return Measurement({"expected": pd.DataFrame(rows)})


def test_each_caption_is_judged_by_its_own_algorithm() -> None:
    """The caption of Alg. 3 says nothing about the others."""
    for te, verdict in ((6.0, "confirmed"), (3.0, "refuted")):
        assert (
            judge("households-moderate", at_the_end(offline_network=(te, 0.1))).verdict == verdict
        )
    falls = 1 / np.sqrt(np.arange(1, 42))
    settled = at_the_end(online_signal=(falls, falls[-1]))
    assert judge("households-convergent", settled).verdict == "confirmed"
    for stays in ((0.1, 0.1), (falls + 0.1, falls[-1])):
        assert judge("households-convergent", at_the_end(online_signal=stays)).verdict == "refuted"
    for network, signal, verdict in ((1.2, 1.0, "confirmed"), (1.0, 1.0, "refuted")):
        found = at_the_end(online_network=(network, 1.0), online_signal=(signal, 1.0))
        assert judge("us-noticeable", found).verdict == verdict


def test_the_noise_of_small_signals_is_counted_exactly() -> None:
    """P(s < 1) and E[s^-2; s < 1]/E s^-2 by quadrature over log s."""
    z, h = np.linspace(-14.0, 14.0, 2_800_001, retstep=True)
    density = np.exp(-(((z - 1.67) / 1.04) ** 2) / 2) / (1.04 * np.sqrt(2 * np.pi)) * h
    weight = density * np.exp(-2 * z)
    below, fraction = sample_paths.small_signals()
    assert below == pytest.approx(density[z < 0].sum(), rel=1e-4)
    assert fraction == pytest.approx(weight[z < 0].sum() / weight.sum(), rel=1e-4)


@pytest.mark.parametrize(
    ("power", "published", "verdict"),
    [(0.5, 0.5, Verdict.CONFIRMED), (0.5, 0.1, Verdict.REFUTED), (0.0, 0.5, Verdict.REFUTED)],
)
def test_a_random_walk_is_recognised(power: Any, published: Any, verdict: Any) -> None:
    powers = {extensions.EVERY: power, extensions.AS_PUBLISHED: published, extensions.ONCE: 0.0}
    rows = [
        {"variant": name, "round": t, "cop": 2 * max(t, 1) ** slope}
        for name, slope in powers.items()
        for t in range(101)
    ]
    finding = judge("noise-in-every-round", Measurement({"expected": pd.DataFrame(rows)}))
    assert finding.verdict is verdict


@pytest.mark.parametrize("power", [-0.5, -0.1])
def test_the_exponent_of_a_rate_is_said(power: Any) -> None:
    rows = [{"network": "n", "round": t, "error": t**power} for t in (10, 100, 1000)]
    said = extensions.exponents(Measurement({"rates": pd.DataFrame(rows)}))
    assert f"n t^{power:.2f}." in said
    assert "loose, as a bound" in said


def test_exact_rates_are_those_of_sampled_streams() -> None:
    """tr C_t/t^2 against 4,000 runs of the rule itself on the ring's links; 6 standard errors."""
    rounds, n = extensions.QUICK_RATE_ROUNDS, extensions.CHANGING
    rows = [r for r in extensions.rates(Context(quick=True)) if r["network"].startswith("one link")]
    weights = extensions.changing(0)["one link of the ring a round"]
    rng, nu = np.random.default_rng(5), np.zeros((n, 4000))
    for t in range(1, rounds + 1):
        nu = (t - 2) / t * nu + weights(t) @ nu / t + rng.normal(size=nu.shape) / t
    squares = (nu**2).sum(axis=0)
    error = squares.std() / np.sqrt(squares.size)
    assert abs(squares.mean() - rows[-1]["error"] ** 2) < 6 * error


@pytest.mark.parametrize(
    ("low", "floor", "verdict"),
    [(0.5, 0.5, "refuted"), (0.5, 0.001, "corrected"), (0.001, 0.001, "confirmed")],
)
def test_what_is_spent_is_held_against_the_claim(low: Any, floor: Any, verdict: Any) -> None:
    rows = [
        {"epsilon": 1.0, "domain": d, "claimed": 0.01, "spent": x, "s": 1.0, "other": 2.0}
        for d, x in (("s > 0", low), ("s >= 1", floor))
    ]
    assert (
        judge("published-is-private", Measurement({"spent": pd.DataFrame(rows)})).verdict == verdict
    )


def test_what_is_spent_is_exact() -> None:
    """Against the integral on a fine grid, and the numbers of erratum 2, both domains said."""
    for s, other in ((1.0, 2.0), (2.0, 1.0), (0.1, 1.1), (7.0, 8.0)):
        noise = float(factor_as_published(np.array(1.0), 0.01))  # 1/epsilon is 1
        y = np.linspace(-900.0, 900.0, 4_000_001)
        f, g = (np.exp(-np.abs(y - np.log(x)) * x / noise) * x / (2 * noise) for x in (s, other))
        grid = np.maximum(f - np.e * g, 0).sum() * (y[1] - y[0])
        found = laplace_delta(np.log(other / s), noise / s, noise / other, 1.0)
        assert found == pytest.approx(grid, abs=1e-4)
    assert worst_pair(1.0, 1.0, 0.01).delta == pytest.approx(0.0934, abs=1e-4)
    sentence = judge(
        "published-is-private", Measurement({"spent": pd.DataFrame(headline.spent())})
    ).sentence
    assert "0.0934 on s >= 1" in sentence
    assert "on s > 0" in sentence


def test_the_headline_says_what_clipping_does_to_its_target() -> None:
    """E max(X, 0) - 1.67 by quadrature; as to log s the paper's noise errs less online at epsilon = 1."""
    experiment = replace(headline.EXPERIMENTS[0], scenarios=shipped("headline-households"))
    table = experiment.measure(experiment, Context()).table
    z, h = np.linspace(-14.0, 0.0, 1_400_001, retstep=True)
    density = np.exp(-(((z - 1.67) / 1.04) ** 2) / 2) / (1.04 * np.sqrt(2 * np.pi)) * h
    bias = np.sqrt(969) * -(z * density).sum()
    part = table[(table.task == "households-online") & (table.epsilon == 1.0)].set_index("method")
    assert part.bias.tolist() == pytest.approx([bias, bias], rel=1e-4)
    assert part.te[headline.OURS] < part.te[headline.PAPER]
    assert part.unclipped[headline.OURS] > part.unclipped[headline.PAPER]
    found = judge("headline-improves", Measurement({"": table})).sentence
    assert f"off that of log s by {bias:.3g} in the norm" in found
    assert "0.273 to 0.745" in found


def test_the_headline_changes_the_noise_alone() -> None:
    """The mean of the same bounded signals by the same algorithm, not jacobi beside average."""
    for experiment in headline.EXPERIMENTS:
        for text in experiment.scenarios:
            ways: dict[str, set[Any]] = {}
            for spec in Scenario.parse(text).variants:
                assert spec.family.name == "log-normal"
                assert spec.family.options["bounds"][0] in (1.0, 100.0)
                way = (spec.algorithm.name, spec.algorithm.rounds, spec.privacy.protect)
                ways.setdefault(spec.name.split(".")[1], set()).add(way)
            assert {len(found) for found in ways.values()} == {1}


@pytest.mark.parametrize(
    ("overhead", "equal", "lower", "verdict"),
    [(0.8, 1.0, 0.1, "corrected"), (1.2, 1.0, 0.1, "refuted"), (0.5, 0.1, 1.0, "confirmed")],
)
def test_the_overhead_lies_between_its_bounds(
    overhead: Any, equal: Any, lower: Any, verdict: Any
) -> None:
    rows = [{"variant": "central.online", "overhead": overhead, "equal": equal, "lower": lower}]
    assert judge("central-overhead", Measurement({"": pd.DataFrame(rows)})).verdict == verdict


def test_the_published_rule_loses_where_a_cap_binds() -> None:
    finding = judge("central-optimal", Measurement({"rules": heterogeneous.rules()}))
    assert finding.verdict is Verdict.CORRECTED
    assert "76.417 against 70.267" in finding.sentence


@pytest.mark.parametrize(("bound", "verdict"), [(3.0, "confirmed"), (1.0, "refuted")])
def test_bounds_must_be_above(bound: Any, verdict: Any) -> None:
    row = {"place": "p", "task": "a", "expected_te": 2.0, "expected_cod": 2.0,
           "bound_total": bound, "bound_decentralisation": bound}  # fmt: skip
    measured = Measurement({"": pd.DataFrame([row])})
    assert judge("table-1-below", measured).verdict == verdict
    assert judge("table-heterogeneous-decentralisation", measured).verdict == verdict


@pytest.mark.parametrize(("cop", "verdict"), [(0.1, "confirmed"), (50.0, "corrected")])
def test_efficient_means_a_tenth_of_the_mean(cop: Any, verdict: Any) -> None:
    row = {"method": "m", "task": "a", "protects": "signal", "epsilon": 1.0, "agents": 100,
           "expected_cop": cop, "cod": 0.1, "target": 2.0}  # fmt: skip
    assert judge("real-efficient", Measurement({"": pd.DataFrame([row])})).verdict == verdict


def test_a_cost_is_judged_against_both_targets() -> None:
    """The MVUE, from which the error without noise tends to 0, and E xi."""

    def at(truth: float, te: float = 0.06) -> Measurement:
        row = {"variant": "offline-signal", "round": 1, "te": te, "cod": 2e-5, "truth": truth,
               "truth_noiseless": 1.04}  # fmt: skip
        return Measurement({"expected": pd.DataFrame([row])})

    assert judge("households-costly", at(2.0)).verdict is Verdict.CONFIRMED
    found = judge("households-costly", at(1.0418))
    assert found.verdict is Verdict.CORRECTED
    assert "0.06 with noise and 2e-05 without" in found.sentence
    assert "noise adds 0.17%" in found.sentence
    assert judge("households-costly", at(1.04, te=2e-5)).verdict is Verdict.REFUTED


def test_theorems_are_held_against_agents_that_never_communicate() -> None:
    """True and above them: uninformative; below them: confirmed; below the error: refuted."""
    experiment = theorems.EXPERIMENTS[0]
    measured = experiment.measure(experiment, Context())
    found = {claim.id: claim.check(measured).verdict for claim in experiment.claims}
    bounds = ("theorem-1", "theorem-2", "theorem-3")
    assert found["theorem-1"] is Verdict.CONFIRMED  # on the complete graph it is below their error
    assert found["theorem-2"] is found["theorem-3"] is Verdict.UNINFORMATIVE
    assert found["corollary-1"] is found["heterogeneous-online"] is Verdict.CONFIRMED
    assert found["network-dp-for-all-t"] is Verdict.REFUTED
    assert "least constant on the noise is 1.414" in judge("corollary-1", measured).sentence
    table = measured.table
    weak = Measurement({"": table.assign(bound_privacy=table.privacy / 2)})
    sharp = Measurement({"": table.assign(bound=table.exact)})
    loose = Measurement({"": table.assign(bound=table.alone)})
    for id in bounds:
        assert judge(id, loose).verdict is Verdict.UNINFORMATIVE
        assert judge(id, weak).verdict is Verdict.REFUTED
        assert judge(id, sharp).verdict is Verdict.CONFIRMED
    assert judge("corollary-1", weak).verdict is Verdict.REFUTED


def test_agents_alone_are_what_identity_weights_give() -> None:
    """CoP and CoD at A = I from explicit matrices."""
    n, t = 5, 4
    averaging = np.eye(n) - 1 / n
    cop, cod = theorems.isolated_agents("average", n, t)
    assert cop == pytest.approx(np.sqrt(2 * n))
    assert cod == pytest.approx(np.linalg.norm(averaging))
    cop, cod = theorems.isolated_agents("learn", n, t)
    assert (cop, cod) == pytest.approx((np.sqrt(2 * n / t), np.sqrt(n / t)))


def test_tightness_is_loose_by_the_numbers() -> None:
    experiment = theorems.EXPERIMENTS[1]
    measured = experiment.measure(experiment, Context())
    first, limit, both = (claim.check(measured) for claim in experiment.claims)
    assert (first.verdict, both.verdict) == (Verdict.REFUTED, Verdict.REFUTED)
    assert "attained up to sqrt(2)" in first.sentence
    assert limit.verdict is Verdict.CORRECTED
    assert "1.414/1.414/1.414" in limit.sentence
    grows = measured.table.assign(over_order=np.sqrt(measured.table.agents))
    assert judge("tends-to-one-over-epsilon", Measurement({"": grows})).verdict is Verdict.REFUTED
    assert "Theorem 2 12.1/77.6/311; Theorem 3 4.31/11.5/33.2" in both.sentence
    tight = Measurement({"": measured.table.assign(loose=1.0, over_order=1.0)})
    assert all(claim.check(tight).verdict is Verdict.CONFIRMED for claim in experiment.claims)


def test_laplace_is_optimal_in_the_derivative_form_only() -> None:
    experiment = theorems.EXPERIMENTS[2]
    measured = experiment.measure(experiment, Context(quick=True))
    finding = experiment.claims[0].check(measured)
    assert finding.verdict is Verdict.CORRECTED
    assert "0.959, 0.520, 0.042" in finding.sentence
    assert "there Laplace is optimal" in finding.sentence
    best = measured.table.assign(staircase=measured.table.laplace)
    assert judge("laplace-is-optimal", Measurement({"": best})).verdict is Verdict.CONFIRMED
    worse = measured.table.assign(derivative_best=measured.table.derivative_laplace / 2)
    assert judge("laplace-is-optimal", Measurement({"": worse})).verdict is Verdict.REFUTED


def test_judged_confirms_what_holds() -> None:
    assert judged(True, "x").verdict is Verdict.CONFIRMED
    assert judged(False, "x").verdict is Verdict.REFUTED
    assert judged(False, "x", Verdict.CORRECTED).verdict is Verdict.CORRECTED
