"""An agent's part in a masked sum: on the grid exactly, its noise drawn ahead and given out once."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.agents.ledger.conftest import make_problem
from veilsum import families
from veilsum.agents.intervals import half_width
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import (
    ContributionMechanism,
    ReleaseMechanism,
    make_mechanism,
)
from veilsum.agents.release.reserve import DEPTH
from veilsum.errors import AgentError, SignalError
from veilsum.privacy import Batches, MaskedDP, Noise, Release, plan, spent
from veilsum.scenario import Scenario
from veilsum.testing import PredictableEntropy

SCENARIO = """
network = {graph = "complete:4"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", mode = "masked", epsilon = 1.0, colluders = 1}
algorithm = {name = "masked-sum", rounds = 10}
"""


def terms(text: str = SCENARIO) -> Any:
    problem = Scenario.parse(text).build().problem
    return Manifest.of(problem, "four"), problem


def test_readings_are_added_up_on_the_grid_without_an_error() -> None:
    manifest, problem = terms()
    made = make_mechanism(manifest, problem, "0")
    assert isinstance(made, ContributionMechanism)
    step = Fraction(made.step)
    signals = [0.1, 9.87654321, 3.0, 12.0, -4.0]  # the last two beyond the bounds
    clipped = [min(max(Fraction(x), Fraction(0)), Fraction(10)) for x in signals]
    expected = sum((x / step + Fraction(1, 2)) // 1 for x in clipped)
    found = made.contribution(3, signals)
    assert found.statistic == (expected,)
    assert (found.query, found.readings) == (3, 5)
    assert str(expected) not in f"{found!r} {made!r} {made.noise!r}"


def test_the_cost_and_the_noise_are_those_of_the_masked_terms() -> None:
    manifest, problem = terms()
    made = ContributionMechanism(manifest, problem, "1")
    assert made.event().epsilon == 1.0
    assert (made.terms.n, made.terms.honest, made.terms.attempts) == (4, 3, 1)
    assert "up to 1 of the other members together" in str(made.guarantee)


NUMBER = families.Normal(1.0, bounds=(0.0, 10.0))
VECTOR = families.MultivariateNormal((0.01 * np.eye(64)).tolist(), bounds=(0.0, 1.0))
TWICE = MaskedDP(1.0, colluders=4, absent=2, attempts=2)


@pytest.mark.parametrize(
    ("algorithm", "request_made", "family"),
    [
        ("masked-sum", TWICE, NUMBER),
        ("masked-learn", TWICE, NUMBER),
        ("masked-learn", replace(TWICE, batches=Batches(2.0, longest=4)), NUMBER),
        ("masked-sum", replace(TWICE, delta=2e-6, radius=math.inf), VECTOR),
        ("masked-learn", replace(TWICE, delta=2e-6, radius=math.inf), VECTOR),
    ],
)
def test_what_is_composed_is_a_query_with_all_its_attempts(
    algorithm: str, request_made: MaskedDP, family: Any
) -> None:
    """Two sessions of epsilon = 0.5: no window or stream costs less than one of its readings."""
    problem = make_problem(algorithm, request_made, family, 50, "ring:20")
    manifest = Manifest.of(problem, "twenty")
    made = ContributionMechanism(manifest, problem, "0")
    found, event = made.guarantee, made.guarantee.event
    assert event is not None
    assert (made.event().epsilon, found.epsilon) == (0.5, 1.0), "the ledger charges by the session"
    (run,) = found.runs
    assert (run.event, run.times) == (event, 2)
    query = spent([Release(event)] * 2)
    assert (query.epsilon, query.delta) == (found.epsilon, found.delta)
    assert found.noise is Noise.EXACT
    if not problem.algorithm.online:
        return
    for one in (found.for_stream(1), found.for_window(1)):
        assert one.epsilon >= found.epsilon
        assert one.delta >= found.delta
    assert found.for_stream(4).epsilon >= 4 * found.epsilon
    session = replace(found, runs=(replace(run, times=1),))  # weakened: one session of a query
    assert session.for_stream(1).epsilon < found.epsilon


def test_the_reserve_draws_what_the_exact_sampler_draws() -> None:
    manifest, problem = terms()
    made = ContributionMechanism(
        manifest, problem, "1", entropy=PredictableEntropy(5, simulation_only=True)
    )
    again = PredictableEntropy(5, simulation_only=True)
    expected = [tuple(map(int, made.terms.noise.draw(1, again))) for _ in range(DEPTH)]
    assert [made.noise.draw() for _ in range(DEPTH)] == expected


def test_what_cannot_be_summed_is_refused() -> None:
    manifest, problem = terms()
    made = ContributionMechanism(manifest, problem, "0")
    for bad in (float("nan"), "much", (1.0, 2.0)):
        with pytest.raises(SignalError) as problem_found:
            made.contribution(1, [bad])
        assert "much" not in str(problem_found.value)
    with pytest.raises(AgentError, match="at least one reading"):
        made.contribution(1, [])
    with pytest.raises(AgentError, match="no member"):
        ContributionMechanism(manifest, problem, "stranger")
    other = replace(problem, family=families.Normal(2.0, bounds=(0.0, 10.0)))
    with pytest.raises(AgentError, match="takes the family of its network"):
        ContributionMechanism(manifest, other, "0")
    local = SCENARIO.replace('mode = "masked", ', "").replace(", colluders = 1", "")
    local = local.replace("masked-sum", "average")
    manifest, problem = terms(local)
    with pytest.raises(AgentError, match="need a ReleaseMechanism"):
        ContributionMechanism(manifest, problem, "0")
    assert isinstance(make_mechanism(manifest, problem, "0"), ReleaseMechanism)


def categories(count: int, **changes: Any) -> Any:
    request = MaskedDP(1.0, colluders=4, absent=2)
    family = families.Categorical(count)
    problem = make_problem("masked-sum", replace(request, **changes), family, 50, "ring:20")
    return Manifest.of(problem, "towns"), problem, family


def test_every_one_of_400_categories_contributes_and_has_an_interval() -> None:
    manifest, problem, family = categories(400)
    made = ContributionMechanism(manifest, problem, "0")
    for category in range(400):
        found = made.contribution(1, [category]).statistic
        assert sum(found) == found[category] == 1
    widths = half_width(manifest, family, [1] * 20, round=1)
    assert len(widths) == 400
    assert min(widths) > 0


def test_the_noise_of_categories_follows_the_root_of_two() -> None:
    """l1 = 2, l2 = sqrt 2 whole steps: the l1 norm in its place takes 1.4 times the deviation."""
    request = MaskedDP(1.0, colluders=4, absent=2, delta=1e-6)
    pure = plan(replace(request, delta=0.0), families.Categorical(400), members=20)
    made = replace(pure, privacy=request).mechanism()  # which `plan` refuses: pure noise is smaller
    assert made.terms.l2_steps == pytest.approx(math.sqrt(2), rel=1e-12)
    weak = replace(made.terms, l2_steps=2.0)
    ratio = math.sqrt(weak.law.variance / made.terms.law.variance)
    assert ratio == pytest.approx(1.4, abs=0.02)


def custom(stated: Any) -> Any:
    """xi = s^2 on [0, 10], with a range that may be too narrow."""
    return families.Custom(
        np.square, families.Support(low=0.0, high=10.0), 20.0, statistic_range=stated
    )


def test_a_statistic_outside_its_stated_range_is_refused_not_clipped() -> None:
    manifest, problem = terms()
    for stated, refused in (((0.0, 100.0), False), ((0.0, 33.0), True)):
        family = custom(stated)
        theirs = replace(manifest, family=repr(family))
        made = ContributionMechanism(theirs, replace(problem, family=family), "0", research=True)
        if refused:
            with pytest.raises(
                SignalError, match=r"of 0 for query 7 is outside the range"
            ) as found:
                made.contribution(7, [6.5])
            assert "6.5" not in str(found.value)
            assert "42.25" not in str(found.value)
        else:
            assert made.contribution(7, [6.5]).statistic == (round(42.25 / made.step),)
    silent = custom(None)
    with pytest.raises(AgentError, match="no public bounds"):
        ContributionMechanism(
            replace(manifest, family=repr(silent)), replace(problem, family=silent), "0",
            research=True,
        )  # fmt: skip


def test_the_error_of_floats_is_paid_at_both_ends_of_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error that a move meets twice: at half the room to the next step it just fits."""
    manifest, problem = terms()
    made = ContributionMechanism(manifest, problem, "0")
    step, sensitivity = Fraction(made.step), Fraction(made._mechanism.sensitivity)
    room = made.terms.sensitivity_steps * step - sensitivity
    for error, fits in ((room / 2, True), (room * 3 / 4, False)):
        with monkeypatch.context() as patch:
            patch.setattr(families.Normal, "_error", lambda _, e=error: float(e))
            patch.setattr(families.Normal, "statistic_is_exact", False)
            if fits:
                ContributionMechanism(manifest, problem, "0")
            else:
                with pytest.raises(AgentError, match="may move further"):
                    ContributionMechanism(manifest, problem, "0")
                planned = plan(problem.privacy, problem.family, members=4).mechanism()
                assert planned.terms.sensitivity_steps > made.terms.sensitivity_steps
