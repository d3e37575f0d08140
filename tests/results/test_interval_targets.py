"""What an interval is of: these readings, or the population that they are drawn from."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veilsum as vs
from veilsum.errors import FamilyError, VeilsumError
from veilsum.families import Bernoulli, LogNormal, LogNormal1p, Normal, Poisson
from veilsum.front.of_runs import of_runs
from veilsum.front.table import long_table
from veilsum.front.words import with_bar
from veilsum.privacy import Batches, MaskedDP, NetworkDP, NoPrivacy, SignalDP
from veilsum.results import Result, intervals
from veilsum.simulation import Problem, Record, simulate
from veilsum.simulation.releases import released_parts, releases_once
from veilsum.theory.noise import noise_half_width

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("VEILSUM_DATA", BESIDE)) / "households_daily_kwh.csv"
SMALL = 1e-6  # the false-alarm rate of every statistical test here
AGENTS, ROUNDS, STREAMS = 40, 49, 400
COMPLETE = vs.networks.lazy_metropolis(f"complete:{AGENTS}")
BOUNDED = Normal(bounds=(0.0, 10.0))


@dataclass(frozen=True, eq=False)
class Streams:
    """Measured streams, another one for each replica: (agents, rounds, replicas)."""

    values: Any
    varies: bool = True
    measured: bool = True

    def signals(self, t: int, replicas: int) -> Any:
        return self.values[:, t - 1, :replicas]

    def expected(self, family: Any, rounds: int) -> Any:
        return family.columns(self.values[:, :rounds]).mean(axis=(0, 1, 2))

    def check(self, family: Any, rounds: int) -> None:
        del family
        assert rounds <= self.values.shape[1]


def remembering(memory: float) -> Any:
    """AR(1), mean 0 and variance 1."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(AGENTS, ROUNDS, STREAMS))
    for t in range(1, ROUNDS):
        x[:, t] = memory * x[:, t - 1] + math.sqrt(1 - memory**2) * x[:, t]
    return x


def streams_of(name: str) -> tuple[Any, Any, float, float]:
    """Values, family, radius and the mean of the population."""
    if name == "AR(1) 0.9":
        return remembering(0.9), Normal(1.0), 1.0, 0.0
    if name == "agents differ":
        fixed = np.random.default_rng(2).normal(size=(AGENTS, 1, STREAMS))
        return fixed + remembering(0.0), Normal(math.sqrt(2)), 1.0, 0.0
    if not DATA.is_file():
        pytest.skip(f"no household data in {DATA.parent}")
    rng, top = np.random.default_rng(3), 100.0
    daily = vs.signals.as_signals(DATA).clip(0.0, top).values
    drawn = [rng.choice(len(daily), AGENTS, replace=False) for _ in range(STREAMS)]
    values = np.stack([daily[some] for some in drawn], axis=-1)
    if name == "households, log":
        family = LogNormal1p(sigma=float(np.log1p(daily).std()), bounds=(0.0, top))
        mean = np.log1p(daily).mean(keepdims=True)[0]
        return values, family, 10.0, float(family.parameter(mean)["mu"])
    return values, Normal(float(daily.std()), bounds=(0.0, top)), top, float(daily.mean())


@pytest.mark.parametrize(
    "name", ["AR(1) 0.9", "agents differ", "households, log", "households, kWh"]
)
def test_streams_are_covered_without_independence(name: str) -> None:
    """400 streams with fixed seeds: 0.93 to 0.98 of the default intervals hold what they are of.

    With a coverage of 0.95 fewer than 357 of 400 hits have a probability below 1e-6; readings as if
    independent, which were the default, stay below that.
    """
    values, family, radius, truth = streams_of(name)
    problem = Problem(
        COMPLETE, vs.algorithms.Learn(), family, Streams(values), SignalDP(2.0, radius=radius),
        ROUNDS, replicas=STREAMS, seed=4,
    )  # fmt: skip
    result = Result(problem, simulate(problem))
    means = family.parameter(family.columns(values).mean(axis=(0, 1)))["mu"]
    least = stats.binom.ppf(SMALL, STREAMS, 0.95)
    hits = dict.fromkeys(("readings", "population", "independent"), 0)
    for r in range(STREAMS):
        found = {
            "readings": (result.intervals(replica=r), means[r]),
            "population": (result.intervals(replica=r, of="population"), truth),
            "independent": (result.intervals(replica=r, of="population", correlation=1), truth),
        }
        for key, (bars, held) in found.items():
            hits[key] += bool(bars["mu"].low <= held <= bars["mu"].high)
    assert hits["independent"] < least <= min(hits["readings"], hits["population"])
    assert 0.93 <= hits["readings"] / STREAMS <= 0.98
    assert 0.93 <= hits["population"] / STREAMS <= 0.98


@pytest.mark.parametrize("missing", [0, 10])
def test_a_masked_sum_covers_what_its_interval_is_named_after(missing: int) -> None:
    """400 sums of 40 agents: of the readings present, not of all, where some are missing.

    With a coverage of 0.95 fewer than 357 of 400 hits have a probability below 1e-6. The mean of all
    readings, after which the interval was named, is missed nearly always if some are missing.
    """
    values = np.random.default_rng(7).normal(5.0, 2.0, size=(AGENTS, 1, STREAMS)).clip(0.0, 10.0)
    made = vs.algorithms.get("masked-sum", COMPLETE, missing=missing)
    asked = MaskedDP(20.0, colluders=4, absent=10, attempts=1)
    problem = Problem(
        COMPLETE, made, BOUNDED, Streams(values), asked, 5, replicas=STREAMS, seed=4
    )  # fmt: skip
    result = Result(problem, simulate(problem))
    means = {
        "of the mean of these readings": values.mean(axis=(0, 1)),
        "of the mean of the readings present": values[: AGENTS - missing].mean(axis=(0, 1)),
    }
    bars = [result.intervals(replica=r)["mu"] for r in range(STREAMS)]
    hits = {
        name: sum(bool(bar.low <= mean <= bar.high) for bar, mean in zip(bars, held, strict=True))
        for name, held in means.items()
    }
    least = stats.binom.ppf(SMALL, STREAMS, 0.95)
    assert hits[result.interval_of] >= least
    assert hits[result.interval_of] / STREAMS <= 0.98
    assert bool(hits["of the mean of these readings"] >= least) is (missing == 0)
    (stated, _) = result.named_intervals()
    assert stated.name == result.interval_of


COUNTS, LOADS = np.array([1.0, 4.0]), np.array([0.3, 0.9])
FEW: list[tuple[Any, Any, Any, str]] = [
    (LOADS, Normal(bounds=(0.0, 1.0)), SignalDP(1.0), "average"),
    (LOADS, Normal(bounds=(0.0, 1.0)), SignalDP(1.0, mechanism="staircase"), "average"),
    (COUNTS, Poisson(bounds=(0, 5)), SignalDP(0.5, mechanism="discrete-laplace"), "average"),
    (LOADS, Normal(bounds=(0.0, 1.0)), MaskedDP(1.0, colluders=0, attempts=1), "masked-sum"),
    (np.tile(LOADS, (5, 1)).T, Normal(), NetworkDP(1.0, radius=1.0), "learn-network"),
    (np.tile(LOADS, (5, 1)).T, Normal(), SignalDP(1.0, radius=1.0, batches=Batches(2.0)), "learn"),
]


@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
@pytest.mark.parametrize(
    ("signals", "family", "privacy", "algorithm"), FEW, ids=lambda c: getattr(c, "mechanism", "")
)
def test_noise_of_few_draws_is_covered_exactly(
    signals: Any, family: Any, privacy: Any, algorithm: str
) -> None:
    """Two agents, 99%: 20,000 runs within 5 standard errors (alarm below 6e-7); a lattice may add.

    Of one reading each, a normal quantile, which was the default, covers less, and fails.
    """
    runs, rounds = 20_000, 5
    network = vs.networks.lazy_metropolis("complete:2")
    result = vs.sweep(
        signals, network, family, privacy, algorithm, rounds, replicas=runs, rng=5
    ).result
    width = noise_half_width(result.problem, result.problem.run_epsilons[0], 0.99)
    away = np.abs(result.trace.mean[0, :, 0] - np.mean(signals))
    slack = 5 * math.sqrt(0.01 * 0.99 / runs)
    lattice = 0.003 if privacy.mechanism == "discrete-laplace" else 0.0
    assert -slack < (away <= width).mean() - 0.99 < slack + lattice
    normal = stats.norm.ppf(0.995) * math.sqrt(float(result.trace.noise_variance[0, 0, 0]))
    if not result.problem.algorithm.online or result.problem.algorithm.summed:
        assert (away <= normal).mean() < 0.99 - slack


def loads(algorithm: str = "average", spread: float = 1.0) -> Any:
    """Twelve agents around 5, whatever the spread; a stream of eight readings each, to learn from."""
    rounds = 8 if "learn" in algorithm else 1
    return 5 + spread * np.linspace(-2, 2, 12)[:, None] * np.ones(rounds)


def measured(privacy: Any, family: Any, algorithm: str = "average", **options: Any) -> Result:
    signals = options.pop("signals", loads(algorithm))
    return vs.estimate(
        signals, "complete:12", family, privacy, algorithm, 8, rng=6, **options
    ).result


def test_the_population_interval_is_computed_from_what_was_sent() -> None:
    """In round 0 an agent sends what it released: Student's interval of these messages, to the bit.

    Of the signals themselves it would be as secret as they are: that one is another.
    """
    result = measured(SignalDP(10.0, radius=10.0), BOUNDED, record=Record(every=8))
    sent = result.trace.private[0, :, 0, 0, 0]  # type: ignore[index]
    found = result.intervals(of="population")["mu"]
    half = stats.t.ppf(0.975, 11) * sent.std(ddof=1) / math.sqrt(12)
    assert (found.low, found.high) == pytest.approx((sent.mean() - half, sent.mean() + half))
    raw = stats.t.ppf(0.975, 11) * loads().std(ddof=1) / math.sqrt(12)
    assert half != pytest.approx(raw, rel=0.05)


LOG = LogNormal(bounds=(0.5, 20.0))
ONCE: list[tuple[Any, Any, str]] = [
    (SignalDP(1.0), BOUNDED, "average"),
    (SignalDP(1.0), BOUNDED, "learn-network"),
    (SignalDP(1.0, batches=Batches(2.0)), BOUNDED, "learn"),
    (SignalDP(1.0, mechanism="staircase"), BOUNDED, "jacobi"),
    (SignalDP(1.0, mechanism="piecewise"), BOUNDED, "learn"),
    (SignalDP(1.0, sensitivity="smooth", delta=1e-3), LOG, "learn"),
    (NoPrivacy(), BOUNDED, "learn"),
]


@pytest.mark.parametrize(("privacy", "family", "algorithm"), ONCE, ids=str)
def test_releases_that_are_drawn_again_are_those_of_the_run(
    privacy: Any, family: Any, algorithm: str
) -> None:
    network = vs.networks.lazy_metropolis("complete:12")
    epsilons = [0.5, 1.0] if privacy.adds_noise else []
    result = vs.sweep(
        loads(algorithm),
        network,
        family,
        privacy,
        algorithm,
        8,
        epsilons=epsilons,
        replicas=3,
        rng=6,
    ).result
    assert releases_once(result.problem)
    for e, mean in enumerate(result.trace.mean):
        found = released_parts(result.problem, e).mean(axis=0)
        assert found[: len(mean)] == pytest.approx(mean, abs=1e-12)  # all alike without noise


@pytest.mark.parametrize(
    ("privacy", "algorithm"),
    [(MaskedDP(1.0, colluders=2, attempts=1), "masked-sum"), (NetworkDP(1.0), "learn-network")],
    ids=["masked", "network"],
)
def test_where_no_agent_releases_its_own_value_its_spread_is_not_read(
    privacy: Any, algorithm: str
) -> None:
    """The same noise and mean, agents twice as far apart: the width is public, and the same."""
    assert not releases_once(measured(privacy, BOUNDED, algorithm).problem)
    widths = []
    for spread in (1.0, 2.0):
        result = measured(privacy, BOUNDED, algorithm, signals=loads(algorithm, spread))
        mean = np.full_like(result.trace.mean, 5.0)
        asked = intervals.Asked(of="population")
        bar = intervals.interval_asked(result.problem, result.trace, asked, mean[0, 0])["mu"]
        widths.append(float(bar.high - bar.low))
    assert widths[0] == pytest.approx(widths[1])
    half = widths[0] / 2
    noise = noise_half_width(result.problem, 1.0, 0.95)
    most = 1.96 * 5 / math.sqrt(12)  # the bounds say that a standard deviation is 5 at most
    assert half == pytest.approx(math.hypot(noise, most) / math.sqrt(1 + 1.96**2 / 12), rel=0.01)


def test_a_scale_that_follows_the_signals_gives_no_interval_of_the_readings() -> None:
    """It would tell of them; that of the population is computed from what was released."""
    result = measured(SignalDP(1.0, sensitivity="smooth", delta=1e-3), LOG)
    assert [found.of for found in result.named_intervals()] == ["population"]
    assert result.released()[1] == {}
    known = measured(
        SignalDP(1.0, sensitivity="smooth", delta=1e-3), LogNormal(9.0, bounds=(0.5, 20.0))
    )
    for found in (
        result,
        known,
    ):  # Student's alone: a floor from the noise, or with sigma, would tell
        bar, parts = found.intervals(of="population")["mu"], released_parts(found.problem)
        half = stats.t.ppf(0.975, 11) * parts.std(ddof=1) / math.sqrt(12)
        assert (bar.high - bar.low) / 2 == pytest.approx(half)
    assert not measured(NoPrivacy(), BOUNDED).named_intervals()


def test_sigma_is_for_drawing_signals() -> None:
    with pytest.raises(FamilyError, match="normal has no sigma"):
        vs.sweep({"mu": 5.0}, "ring:9", Normal(), SignalDP(1.0, radius=1.0), rounds=3)
    with pytest.raises(FamilyError, match="log-normal-1p has no sigma"):
        LogNormal1p(sigma=None)  # type: ignore[arg-type]
    found = measured(SignalDP(1.0, radius=1.0), Normal()).named_intervals()
    assert [each.of for each in found] == ["readings", "population"]
    without = measured(NetworkDP(1.0, radius=1.0), Normal(), "learn-network")
    assert [each.of for each in without.named_intervals()] == ["readings"]
    assert any("There is no interval of the population mean" in note for note in without.notes)
    with pytest.raises(FamilyError, match="no sigma"):
        without.intervals(of="population")


def test_a_correlation_that_is_stated_is_taken() -> None:
    result = measured(SignalDP(50.0, radius=1.0), Normal(sigma=1.0), "learn")
    one, four, most = (
        np.ptp([(bar := result.intervals(of="population", correlation=c)["mu"]).low, bar.high])
        for c in (1.0, 4.0, math.inf)
    )
    assert four == pytest.approx(2 * one, rel=0.05)
    assert most == pytest.approx(2 * 1.96 / math.sqrt(12), rel=0.01)


def test_no_success_in_any_stream_is_no_certainty() -> None:
    """Releases without spread: never narrower than what a Bernoulli signal says by itself."""
    result = measured(NoPrivacy(), Bernoulli(), "learn", signals=np.zeros((12, 8)))
    found = result.intervals(of="population")["p"]
    z2 = 1.959963984540054**2
    assert (found.low, found.high) == pytest.approx((0, z2 / (96 + z2)))


@pytest.mark.filterwarnings("ignore::veilsum.errors.DivergenceWarning")
def test_what_is_no_mean_of_the_readings_has_no_interval() -> None:
    result = measured(SignalDP(1.0, radius=1.0), Normal(), "learn-dynamic-as-published")
    with pytest.raises(VeilsumError, match=r"add up to 2\.7\d+, not to 1"):
        result.intervals()
    assert not result.named_intervals()


def test_a_run_with_other_noise_is_not_taken_for_this_one() -> None:
    result = measured(SignalDP(1.0, radius=1.0), Normal())
    problem = result.problem
    other = simulate(problem, plan=problem.plan)  # another key
    with pytest.raises(VeilsumError, match="another plan"):
        Result(problem, other).intervals(of="population")


def test_every_output_states_the_same_intervals_under_the_same_names() -> None:
    """The terminal had one interval, a page of the same run another, without a name."""
    result = measured(SignalDP(4.0, radius=10.0), BOUNDED)
    readings, population = result.named_intervals()
    assert readings.name == "of the mean of these readings" == result.interval_of
    assert population.name == "of the population mean"
    assert result.interval["mu"] == (float(readings.network["mu"].low), readings.network["mu"].high)
    answers = of_runs({"run": result})
    rows = {row.of: row for row in long_table(answers)}
    inside = answers._repr_html_()
    for found in (readings, population):
        bar, row = found.network["mu"], rows[found.name]
        assert (row.low, row.high) == pytest.approx((float(bar.low), float(bar.high)))
        agent = rows[f"{found.name}, any one agent's"]
        narrow, wide = (float(x.high or 0) - float(x.low or 0) for x in (row, agent))
        assert 0 < narrow <= wide * (1 + 1e-12)  # agents of this run agree but for rounding
        assert with_bar(answers.value, bar.low, bar.high) in inside
    assert f"±: 95% {readings.name}." in str(answers)
    assert "± population" in inside
    assert result.agents().attrs["interval"] == "95% of the mean of these readings"


def test_epsilon_is_rounded_up() -> None:
    """log 2 was 0.6931 beside the errors, less than holds, and 0.6932 elsewhere."""
    answers = vs.sweep(
        {"mu": 5.0}, "ring:9", Normal(1.0), SignalDP(math.log(2), radius=1.0), rounds=3
    )
    assert answers.best.cells["epsilon"] == "0.6932"
    assert "0.6931<" not in answers._repr_html_()


def test_one_epsilon_is_shown() -> None:
    """A query of two sessions: the table of errors had the epsilon of one, that of answers both."""
    request = MaskedDP(1.0, colluders=2, absent=2, attempts=2)
    answers = vs.sweep({"mu": 5.0}, "complete:12", Normal(1.0), request, "masked-sum", 8)
    stated = answers.guarantee.epsilon
    assert answers.best.cells["epsilon"] == f"{stated:.4g}"
    assert {row.epsilon for row in long_table(answers)} == {stated}
