"""Every run comes with a guarantee whose status is right."""

import json
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, families, networks
from veilsum.algorithms.table import coefficient_table
from veilsum.auditing import PlantedSignal
from veilsum.errors import AlgorithmError
from veilsum.privacy import Batches, NetworkDP, NoPrivacy, SignalDP, guarantee_of
from veilsum.simulation import Problem, Record, simulate

PUBLISHED: Any = {"epsilon": 1.0, "delta": 0.01, "sensitivity": "smooth-as-published"}
CHEBYSHEV = algorithms.Chebyshev(lambda_2=0.5, lambda_n=0.0)


@pytest.mark.parametrize(
    ("privacy", "algorithm", "status", "words"),
    [
        (SignalDP(1.0), algorithms.Average(), "proved", "noised once"),
        (SignalDP(1.0), algorithms.Jacobi(), "proved", "noised once"),
        (SignalDP(1.0), algorithms.Learn(), "proved", "any one reading of a stream"),
        (SignalDP(1.0), algorithms.PushSum(), "proved", "all messages of all agents"),
        (NetworkDP(1.0), algorithms.LearnNetwork(), "proved", "the next message"),
        (NetworkDP(1.0), algorithms.Average(), "refuted", "erratum 5"),
        (NetworkDP(1.0), CHEBYSHEV, "none", "signal protection"),
        (SignalDP(**PUBLISHED), algorithms.Learn(), "refuted", "erratum 2"),
        (NetworkDP(**PUBLISHED), algorithms.LearnNetwork(), "refuted", "erratum 2"),
        (SignalDP(1.0), algorithms.FirstOrder(), "none", "without noise in round 0"),
        (NetworkDP(1.0), algorithms.FirstOrderEdges(), "none", "without noise in round 0"),
        (SignalDP(1.0), algorithms.FirstOrderOnline(), "proved", "a fraction of epsilon = 1"),
        (NetworkDP(1.0), algorithms.NaiveNetwork(), "proved", "together at most epsilon = 100"),
        (NoPrivacy(), algorithms.Average(), "none", "no noise is added"),
    ],
)
def test_status(privacy: Any, algorithm: Any, status: Any, words: Any) -> None:
    found = guarantee_of(privacy, algorithm)
    assert found.status == status
    assert words in str(found)
    assert json.loads(json.dumps(found.to_dict()))["status"] == status


class Bare(algorithms.Learn):
    """A weakened twin that forgets the noise in round 5."""

    def coefficients(self, t: Any) -> Any:
        now = super().coefficients(t)
        return now._replace(noise=0.0) if t == 5 else now


class Twice(algorithms.Average):
    """A weakened twin that uses the signal again in round 3, with noise but without sharing the budget."""

    def coefficients(self, t: Any) -> Any:
        return (
            algorithms.Coefficients(mixing=0.5, innovation=0.5, noise=0.5)
            if t == 3
            else super().coefficients(t)
        )


def test_a_weakened_custom_algorithm_is_guaranteed_nothing() -> None:
    assert guarantee_of(SignalDP(1.0), Bare(), rounds=4).status == "proved"
    assert "without noise in round 5" in guarantee_of(SignalDP(1.0), Bare(), rounds=5).reason
    assert guarantee_of(SignalDP(1.0), Bare(), rounds=5).status == "none"
    assert guarantee_of(SignalDP(1.0), Twice()).status == "none"
    assert "does not divide the budget" in guarantee_of(SignalDP(1.0), Twice()).reason


class Early(algorithms.Learn):
    """A weakened twin that uses the first reading at the start as well."""

    start = algorithms.Coefficients(innovation=1.0, noise=1.0)


class Mirrored(algorithms.Average):
    """An algorithm that releases the statistic with its sign turned."""

    start = algorithms.Coefficients(innovation=-2.0, noise=1.0)


class Modest(algorithms.Learn):
    """A weakened twin that says its releases move half as far as they do."""

    def sensitivities(self, t: Any) -> Any:
        return algorithms.Sensitivities(0.5, super().sensitivities(t).network)


def test_signs_and_understatements_do_not_weaken_the_noise() -> None:
    turned = algorithms.Algorithm.sensitivities(Mirrored(), 0)
    assert turned == (2.0, 0.0)
    assert guarantee_of(SignalDP(1.0), Mirrored()).status == "none"  # Average says 1, it moves by 2
    assert guarantee_of(SignalDP(1.0), Modest()).status == "none"
    assert "understates" in guarantee_of(SignalDP(1.0), Modest()).reason


class Shared(algorithms.Average):
    """An algorithm that divides its budget over the start and every round."""

    splits_budget = True

    def coefficients(self, t: Any) -> Any:  # noqa: ARG002
        return algorithms.Coefficients(mixing=0.5, innovation=0.5, noise=0.5)


class KeepsReadings(algorithms.Learn):
    """A weakened twin in which every reading is used twice."""

    def latest(self, t: Any) -> Any:
        return (t + 1) // 2


class Window(algorithms.Learn):
    """A weakened twin in which a reading stays for five rounds."""

    def readings(self, t: Any) -> Any:
        return min(t, 5)


class Foreseen(algorithms.Learn):
    """Uses the reading of the next round."""

    def latest(self, t: Any) -> Any:
        return t + 1


@pytest.mark.parametrize(("algorithm", "times"), [(KeepsReadings(), 2), (Window(), 5)])
def test_a_reading_that_enters_several_rounds_is_not_proved(algorithm: Any, times: int) -> None:
    """What is released of one reading, counted in the simulator: the loss of all rounds together."""
    for request in (SignalDP(1.0), NetworkDP(1.0)):
        found = guarantee_of(request, algorithm)
        assert found.status == "none"
        assert f"of a stream in {times} rounds" in found.reason
    assert guarantee_of(SignalDP(1.0), algorithms.Learn()).status == "proved"
    batched = SignalDP(1.0, batches=Batches(2.0)).batched(algorithms.Learn())
    assert coefficient_table(batched, 100).reused is None
    assert guarantee_of(SignalDP(1.0, batches=Batches(2.0)), algorithms.Learn()).status == "proved"
    ring = networks.metropolis("ring:5")
    family = families.Normal(1.0, bounds=(0.0, 1.0))
    entered = []
    for value in (0.0, 1.0):
        source = PlantedSignal(np.zeros(5), 0, value, reading=2)
        problem = Problem(ring, algorithm, family, source, SignalDP(1.0), 12)
        trace: Any = simulate(problem, Record(every=1)).noiseless
        entered.append(trace[:, :, 0, 0] @ np.ones(5))
    means = np.diff(entered, axis=0)[0] * np.arange(13)  # learn divides by t: each entry adds 1
    assert np.unique(np.diff(means).round(9)).tolist() == [0.0, 1.0]
    assert np.diff(means).sum() == pytest.approx(times)


def test_a_reading_that_is_not_there_yet_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="up to that of the round"):
        guarantee_of(SignalDP(1.0), Foreseen())


def test_readings_and_fractions_are_counted() -> None:
    assert guarantee_of(SignalDP(1.0), Early()).status == "none"
    assert coefficient_table(Shared(), 4).releases == 5
    assert coefficient_table(algorithms.FirstOrder(), 4).releases == 4
    assert guarantee_of(NetworkDP(1.0), algorithms.PushSumLearn()).status == "none"
    assert guarantee_of(SignalDP(1.0), algorithms.PushSumLearn()).status == "proved"


def test_the_deltas_of_a_divided_budget_add_up() -> None:
    """Offline a signal is in all 5 releases of delta/5; a reading of a stream is in one of them."""
    asked = SignalDP(1.0, delta=0.01, sensitivity="smooth")
    family = families.LogNormal(1.0, bounds=(0.5, 20.0))
    offline = guarantee_of(asked, Shared(), 4, family)
    assert offline.event is not None
    assert offline.event.delta == pytest.approx(0.01 / 5)
    assert [offline.epsilon, offline.delta] == pytest.approx([1.0, 0.01])
    stream = guarantee_of(asked, algorithms.FirstOrderOnline(), 4, family)
    assert [stream.epsilon, stream.delta] == pytest.approx([1 / 4, 0.01 / 4])


def test_a_guarantee_names_its_unit_and_its_adversary() -> None:
    text = str(guarantee_of(SignalDP(1.0, radius=0.5), algorithms.Average()))
    assert "moves by at most 0.5 in its own units" in text
    assert "against whoever sees all messages of all agents" in text
    assert "privacy with epsilon = 1 for an agent's signal" in text
    refuted = str(guarantee_of(SignalDP(**PUBLISHED), algorithms.Average()))
    assert "epsilon = 1 and delta = 0.01 for" in refuted
    assert refuted.startswith("Refuted: ")
