"""Statements that the paper makes in passing: made-up tables on either side of each line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.paper.veilsum_data import data  # noqa: F401 - a fixture for all
from veilsum import paper
from veilsum.algorithms import Learn, LearnNetwork
from veilsum.paper import sample_paths, statements
from veilsum.paper.data import MissingDataError
from veilsum.paper.experiment import Context, Measurement, claims


def judge(id: str, **tables: Any) -> str:
    """The verdict of a row on made-up tables; `main` is the main one."""
    made = {("" if k == "main" else k): pd.DataFrame(rows) for k, rows in tables.items()}
    return str(claims()[id].check(Measurement(made)).verdict)


@pytest.mark.parametrize(
    ("needed", "verdict"), [(70, "confirmed"), (101, "refuted"), (10, "refuted")]
)
def test_stated_rounds_must_be_enough_and_of_the_order(needed: int, verdict: str) -> None:
    row = {"network": "n", "agents": 9, "needed": needed, "stated": 100}
    assert judge("non-private-rate", rates=[row]) == verdict


@pytest.mark.parametrize(("power", "verdict"), [(-1.0, "confirmed"), (-0.5, "refuted")])
def test_a_variance_of_order_1_over_t(power: float, verdict: str) -> None:
    rows = [
        {"network": "n", "agents": 9, "round": t, "cop": 1.0, "variance": 0.9 * t**power}
        for t in range(1, 1001)
    ]
    assert judge("variance-over-t", main=rows) == verdict


@pytest.mark.parametrize(("power", "verdict"), [(0.5, "confirmed"), (-0.5, "refuted")])
def test_noise_that_grows_diverges(power: float, verdict: str) -> None:
    rows = [
        {"network": "n", "agents": 9, "round": t, "cop": t**power, "variance": 1.0}
        for t in range(1, 1001)
    ]
    assert judge("alg-4-under-network-dp", main=rows) == verdict


@pytest.mark.parametrize(("left", "verdict"), [(0.01, "confirmed"), (0.5, "refuted")])
def test_agents_that_differ_must_come_to_their_mean(left: float, verdict: str) -> None:
    row = {"network": "n", "agents": 9, "differ": 1.0, "limit": 0.5, "learn": 0.001,
           "learn_network": left}  # fmt: skip
    assert judge("agents-that-differ", differ=[row]) == verdict


@pytest.mark.parametrize(("alike", "verdict"), [(0.4, "confirmed"), (0.1, "corrected")])
def test_a_stream_is_judged_beside_agents_that_are_alike(alike: float, verdict: str) -> None:
    """Alg. 4 mixes faster on identical agents too, and does not decide."""
    rows = [{"variant": f"x.online-{k}", "cod": c} for k, c in (("signal", 0.01), ("network", 0.5))]
    fixed = [{"differ": 1.0, "limit": 0.5, "alike": alike}]
    assert judge("real-average-consumption", main=rows, fixed=fixed) == verdict


@pytest.mark.parametrize(
    ("cost", "status", "verdict"),
    [(8.0, "proved", "confirmed"), (8.0, "refuted", "confirmed"), (11.0, "proved", "refuted")],
)
def test_k_messages_at_most_k_times_one(cost: float, status: str, verdict: str) -> None:
    row = {"moved": 20, "messages": 10, "cost": cost}
    assert judge("k-messages", main=[row], offline=[{"status": status}]) == verdict


@pytest.mark.parametrize(("most", "verdict"), [(3.0, "confirmed"), (0.9, "refuted")])
def test_losses_at_several_agents_add_up(most: float, verdict: str) -> None:
    row = {"place": "p", "least": 0.5, "mean": 0.7, "most": most}
    assert judge("simultaneous-access", together=[row]) == verdict


@pytest.mark.parametrize(("later", "verdict"), [(1.0, "confirmed"), (0.0, "refuted")])
def test_noise_that_cancels_is_not_noise_that_stays(later: float, verdict: str) -> None:
    rows = [{"algorithm": name, "start": 0.0, "later": x}
            for name, x in (("Alg. 3", 0.0), ("Alg. 5", 1.0), ("graph-homomorphic", later))]  # fmt: skip
    assert judge("graph-homomorphic", homomorphic=rows) == verdict


@pytest.mark.parametrize(("budget", "verdict"), [(1.0, "confirmed"), (1.1, "refuted")])
def test_local_constraints_must_imply_the_global_one(budget: float, verdict: str) -> None:
    rows = [{"weights": "Metropolis", "mean_budget": budget}]
    assert judge("local-constraints", local=rows) == verdict


def test_directed_weights_leave_more_than_the_global_budget() -> None:
    """Columns that do not add up to 1: the programme finds more, so it can."""
    found = {row["weights"]: row["mean_budget"] for row in statements.local_budgets()}
    assert found.pop("directed, rows add up to 1") > 1.1
    assert list(found.values()) == pytest.approx([1.0, 1.0], abs=1e-6)


@pytest.mark.parametrize(("apart", "verdict"), [(1e-15, "confirmed"), (0.1, "refuted")])
def test_central_and_local_schemes_are_compared_by_messages(apart: float, verdict: str) -> None:
    """What the sentence is about; the error of the mean is said beside it and does not decide."""
    row = {"agents": 9, "apart": apart, "local": 3.0, "one_noise": 1.0}
    assert judge("central-and-local", central=[row]) == verdict


@pytest.mark.parametrize(
    ("messages", "error", "verdict"),
    [(5, 0.9, "confirmed"), (5, 1.1, "corrected"), (10, 0.9, "corrected"), (10, 1.1, "refuted")],
)
def test_the_fastest_weights_must_help_somewhere(messages: int, error: float, verdict: str) -> None:
    """At one epsilon: the sentence is that they can, and at the other they do not."""
    rows = []
    for weights, fast, least in (("metropolis", 10, 1.0), ("fastest", messages, error)):
        for algorithm in ("average", "jacobi"):
            rows += [
                {"weights": weights, "algorithm": algorithm, "messages": k, "epsilon": epsilon,
                 "error": max(least, floor) * k, "apart": 1.0 if k < fast else 0.01}
                for epsilon, floor in ((1.0, 1.0), (10.0, 0.0))
                for k in range(1, 21)
            ]  # fmt: skip
    assert judge("fastest-weights", main=rows) == verdict


@pytest.mark.parametrize(
    ("relative", "bias", "verdict"),
    [(0.02, 0.01, "corrected"), (0.2, 0.0, "confirmed"), (0.02, 0.2, "confirmed")],
)
def test_reconciled_is_accurate_and_proved(relative: float, bias: float, verdict: str) -> None:
    """With a public floor only, and what clipping does to the mean counts."""
    kinds = ("as published", "s >= 1, as published", "s >= 1, proved")
    rows = [{"task": "online-network", "noise": noise, "epsilon": 1.0, "relative": relative,
             "bias": bias} for noise in kinds]  # fmt: skip
    assert judge("cannot-be-reconciled", main=rows) == verdict


@pytest.mark.parametrize(("falls", "verdict"), [(0.5, "corrected"), (0.9, "confirmed")])
def test_no_meaningful_protection_is_the_price_of_convergence(falls: float, verdict: str) -> None:
    """By noise that is proved: what published noise on s > 0 does is no evidence of protection."""
    rows = [{"task": "online-signal", "noise": noise, "epsilon": e, "error": error, "quarter": 1.0,
             "relative": 0.01, "bias": 0.01} for e in (1.0, 10.0)
            for noise, error in (("as published", 1.4 - falls), ("s >= 1, proved", falls))]  # fmt: skip
    odds = [{"epsilon": e, "odds": np.exp(e), "guess": 0.9} for e in (1.0, 5.0, 10.0)]
    assert judge("no-meaningful-protection", main=rows, odds=odds) == verdict


def test_noise_that_is_called_proved_is() -> None:
    """The guarantee of every case, and how fast errors fall online, which no epsilon changes."""
    measured = statements.accuracy(paper.EXPERIMENTS["accuracy"], Context(quick=True))
    table = measured.table
    proved = table[table.noise == statements.PROVED]
    assert set(proved.guarantee) == {"proved"}
    assert set(proved.task) == {"offline-signal", "online-signal", "online-network"}
    assert set(table[table.noise == "as published"].guarantee) == {"refuted"}
    for _, part in table[table.task == "online-signal"].groupby("noise"):
        falls = (part.error / part.quarter).to_numpy()
        assert falls == pytest.approx(falls[0], rel=1e-6)
    odds = measured.tables["odds"].set_index("epsilon")
    assert odds.guess[1.0] == pytest.approx(np.e / (1 + np.e))


def test_network_dp_of_alg_3_is_refuted_and_not_merely_without_bounds() -> None:
    """As in the paper signals move by 1: without that radius no noise at all would be enough."""
    assert statements.offline_guarantee() == {"status": "refuted"}


@pytest.mark.parametrize(
    ("settled", "power", "noise", "verdict"),
    [(50, -0.9, 0.5, "confirmed"), (100, -0.5, 0.5, "corrected"), (100, -0.5, 2.0, "refuted")],
)
def test_faster_is_not_lower(settled: int, power: float, noise: float, verdict: str) -> None:
    rows = [
        {"task": task, "budgets": kind, "epsilon": 1.0, "total": 1.0, "noise": n, "settled": s,
         "exponent": p}
        for task in ("offline-network", "online-network")
        for kind, n, s, p in (("equal", 1.0, 100, -0.5), ("allocated", noise, settled, power))
    ]  # fmt: skip
    assert judge("budgets-converge-faster", budgets=rows) == verdict


@pytest.mark.parametrize(
    ("us", "homes", "verdict"),
    [(1.1, 1.2, "confirmed"), (1.1, 6.0, "corrected"), (3.0, 6.0, "refuted")],
)
def test_sacrificed_is_what_privacy_adds(us: float, homes: float, verdict: str) -> None:
    rows = [{"place": p, "task": "online", "epsilon": 1.0, "expected_te": te, "expected_cod": 1.0,
             "sampling": 0.0} for p, te in (("us", us), ("homes", homes))]  # fmt: skip
    assert judge("not-sacrificed", main=rows) == verdict


def test_losses_of_neighbours_are_those_of_explicit_messages() -> None:
    """The largest log ratio of the densities of all neighbours' messages, one estimate moved by 1."""
    rows = {row["place"]: row for row in statements.together()}
    assert rows["us-grid"]["least"] == pytest.approx(1.0)
    network = paper.EXPERIMENTS["fig-paths-households"].jobs(Context(quick=True))[0].problem.network
    A, t = network.at(1).toarray(), 7
    others = A - np.diag(np.diag(A))
    scale, estimates = others.max(axis=1) / t, np.zeros(len(A))
    losses = []
    for j in range(len(A)):
        estimates[j] = 1.0
        shift = others @ estimates / t
        estimates[j] = 0.0
        far = 50 * scale + shift  # where the ratio of two Laplace densities is largest
        losses.append(((np.abs(far) - np.abs(far - shift)) / scale).sum())
    for name, loss in (("least", min(losses)), ("mean", np.mean(losses)), ("most", max(losses))):
        assert rows["households"][name] == pytest.approx(loss)


def test_real_households_stay_apart_under_alg_5() -> None:
    """537 Swiss households, 49 days, no noise: 12.27, where Alg. 4 has 1.54."""
    experiment = paper.EXPERIMENTS["fig-paths-real"]
    try:
        jobs = {job.name: job.problem for job in experiment.jobs(Context())}
    except MissingDataError as missing:
        pytest.skip(str(missing))
    problem = jobs["swiss-daily.online-signal"]
    xi = np.stack([problem.family.columns(problem.source.signals(t, 1))[:, 0, 0]
                   for t in range(1, problem.rounds + 1)])  # fmt: skip
    A, found = problem.network.at(1), {}
    for algorithm in (Learn(), LearnNetwork()):
        nu = np.zeros(problem.network.size)
        for t in range(1, problem.rounds + 1):
            now = algorithm.at(t)
            nu = now.own * nu + now.mixing * (A @ nu) + now.innovation * xi[t - 1]
        found[algorithm.name] = float(np.linalg.norm(nu - xi.mean()))
    assert found == pytest.approx({"learn": 1.54, "learn-network": 12.27}, abs=0.01)
    fixed = sample_paths.fixed_points(problem)
    assert fixed["limit"] == pytest.approx(12.2, abs=0.1)
    assert fixed["alike"] < found["learn-network"] / 4
