"""`check_algorithm` accepts every algorithm of veilsum, and catches each broken one by name."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from veilsum import algorithms, networks
from veilsum.algorithms import Algorithm, Coefficients
from veilsum.errors import AlgorithmError
from veilsum.privacy import NetworkDP
from veilsum.testing import check_algorithm

FLORENTINE = networks.metropolis(networks.load("florentine-families"))
ALL = ("description", "finite", "weights", "unbiased", "pickling", "simulator")


@dataclass(frozen=True)
class Lazy(Algorithm):
    """nu_t = (nu_{t-1} + A nu_{t-1}) / 2: averaging that moves half the way."""

    name: ClassVar[str] = "lazy"
    formula: ClassVar[str] = "nu_t = (nu_{t-1} + A nu_{t-1})/2"
    reference: ClassVar[str] = "a test"
    start: ClassVar[Coefficients] = Coefficients(innovation=1.0, noise=1.0)

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the interface
        """The same in every round."""
        return Coefficients(own=0.5, mixing=0.5)


class Heavy(Lazy):
    """Weights that add up to more than one."""

    def coefficients(self, t: int) -> Coefficients:
        """Too much."""
        return Coefficients(own=0.5, mixing=0.5 + 1e-6 * t)


class Infinite(Lazy):
    """A coefficient that is not a number in a late round."""

    def coefficients(self, t: int) -> Coefficients:
        """nan after 20 rounds."""
        return Coefficients(own=0.5, mixing=0.5 if t < 20 else float("nan"))


class Biased(Lazy):
    """A start at twice the statistic."""

    start: ClassVar[Coefficients] = Coefficients(innovation=2.0, noise=2.0)


class Forgetful(Lazy):
    """A copy that has other coefficients."""

    def __reduce__(self) -> Any:
        return (Lazier, ())


class Lazier(Lazy):
    """Moves less."""

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the interface
        """The same in every round."""
        return Coefficients(own=0.75, mixing=0.25)


class Unsteady(Lazy):
    """Coefficients that depend on how often they were asked for."""

    asked: ClassVar[list[int]] = []

    def coefficients(self, t: int) -> Coefficients:
        """Another mixture at every call."""
        self.asked.append(t)
        mixing = 1 / (2 + len(self.asked) % 7)
        return Coefficients(own=1 - mixing, mixing=mixing)


class Unpicklable(Lazy):
    """Cannot be sent to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("it holds a lock")


class Nameless(Lazy):
    """No name."""

    name: ClassVar[str] = ""


class Unformulated(Lazy):
    """A formula that is none."""

    formula: ClassVar[str] = "see the paper"


def test_a_custom_algorithm_passes_and_can_run_on_agents() -> None:
    found = check_algorithm(Lazy())
    assert (found.name, found.passed, found.skipped) == ("lazy", ALL, ())
    assert found.runs_on_agents
    assert found.guarantee.status == "proved"


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_of_veilsum_passes(name: str) -> None:
    algorithm = algorithms.get(name, FLORENTINE)
    found = check_algorithm(algorithm)
    if algorithm.diverges:
        assert [why.split(":")[0] for why in found.skipped] == ["weights", "unbiased"]
    else:
        assert (found.passed, found.skipped) == (ALL, ())


@pytest.mark.parametrize(
    ("broken", "check", "why"),
    [
        (Heavy, "weights", "in round 1 own"),
        (Infinite, "finite", "mixing is not"),
        (Biased, "unbiased", "does not shrink"),
        (Forgetful, "pickling", "other coefficients in round 1"),
        (Unpicklable, "pickling", "holds a lock"),
        (Unsteady, "simulator", "differ by"),
        (Nameless, "description", "`name`"),
        (Unformulated, "description", "begin with nu_t"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_algorithm_is_caught_by_the_check_that_should(
    broken: type[Algorithm], check: str, why: str
) -> None:
    with pytest.raises(AlgorithmError, match=f"{check}: .*{why}"):
        check_algorithm(broken())


def test_all_failures_are_named_at_once() -> None:
    with pytest.raises(AlgorithmError, match=r"description: .*; weights: "):
        check_algorithm(type("Both", (Heavy,), {"formula": "", "__doc__": "Two faults."})())


def test_a_class_that_cannot_be_imported_is_not_at_fault() -> None:
    @dataclass(frozen=True)
    class Local(Lazy):
        """Defined in a function, as in a notebook."""

    (why,) = check_algorithm(Local()).skipped
    assert why.startswith("pickling: ")


def test_the_network_and_the_privacy_request_are_those_given() -> None:
    ring = networks.lazy_metropolis(networks.ring(5))
    found = check_algorithm(algorithms.LearnNetwork(), ring, privacy=NetworkDP(0.5))
    assert found.guarantee.epsilon == 0.5
    directed = networks.column_stochastic(
        networks.as_graph(np.array([[0, 1, 1], [1, 0, 0], [0, 1, 0]]))
    )
    assert check_algorithm(algorithms.PushSum(), directed).passed == ALL
    with pytest.raises(AlgorithmError, match="doubly-stochastic"):
        check_algorithm(Lazy(), directed)
