"""What `estimate` says of wrong algorithms, and where its warnings point."""

import inspect
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import veilsum as vs
from veilsum.algorithms import Algorithm, Coefficients
from veilsum.errors import AlgorithmError, DivergenceWarning, LimitWarning, PrivacyWarning
from veilsum.testing import check_algorithm

SIGNALS = [1.0, 2.0, 3.0, 4.0, 5.0]


@dataclass(frozen=True)
class Startless(Algorithm):
    """No start."""

    name: ClassVar[str] = "startless"

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the interface
        """The same in every round."""
        return Coefficients(mixing=1.0)


@dataclass(frozen=True)
class Anonymous(Algorithm):
    """No name."""

    start: ClassVar[Coefficients] = Coefficients(innovation=1.0, noise=1.0)

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002 - the interface
        """The same in every round."""
        return Coefficients(mixing=1.0)


def run(algorithm: Any = "average", **options: Any) -> Any:
    return vs.estimate(
        SIGNALS, "ring:5", vs.families.Normal(sigma=1.0), vs.privacy.SignalDP(1.0), algorithm,
        rounds=5, rng=1, **options,
    ).result  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Startless, r"found the class Startless.*write Startless\(\)"),
        (Startless(), "class Startless lacks start"),
        (Anonymous(), "class Anonymous lacks name"),
        (7, "found 7"),
        (None, "found None"),
    ],
    ids=["class", "no start", "no name", "number", "None"],
)
@pytest.mark.parametrize("call", [run, check_algorithm])
def test_a_wrong_algorithm_is_an_algorithm_error(call: Any, wrong: Any, says: str) -> None:
    with pytest.raises(AlgorithmError, match=says):
        call(wrong)


def test_the_check_takes_an_algorithm_not_its_name() -> None:
    with pytest.raises(AlgorithmError, match="an Algorithm is needed; found 'average'"):
        check_algorithm("average")  # type: ignore[arg-type]


def own_line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.mark.parametrize("call", [vs.estimate, vs.sweep])
def test_a_warning_points_at_the_line_of_the_caller(call: Any) -> None:
    request, ring = vs.privacy.NetworkDP(epsilon=1.0, radius=1.0), vs.networks.metropolis("ring:5")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = own_line() + 1
        call(SIGNALS, ring, vs.families.Normal(sigma=1.0), request, rounds=5, rng=1)
    (warning,) = [one for one in caught if issubclass(one.category, PrivacyWarning)]
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_a_warning_of_limits_points_at_the_line_of_the_caller() -> None:
    family = vs.families.Normal(sigma=1.0, bounds=(0.0, 1.5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vs.sweep({"mu": 2.0}, "ring:5", family, vs.privacy.SignalDP(1.0), rounds=5, rng=1)
    (warning,) = [one for one in caught if issubclass(one.category, LimitWarning)]
    assert warning.filename == __file__


def test_testing_is_an_attribute_of_the_package() -> None:
    assert vs.testing.check_algorithm is check_algorithm
    assert "testing" in dir(vs)


def test_the_name_of_a_periodic_graph_gets_lazy_weights_and_a_warning() -> None:
    with pytest.warns(LimitWarning, match="lazy-metropolis"):
        result = vs.sweep(
            {"mu": 1.0}, "ring:8", vs.families.Normal(1.0), vs.privacy.NoPrivacy()
        ).result
    assert "lazy-metropolis weights" in repr(result)


def test_learn_under_network_dp_warns_that_it_diverges() -> None:
    """CoP grows like sqrt(t): more than twice as large after ten times the rounds."""
    normal, asked = vs.families.Normal(1.0), vs.privacy.NetworkDP(1.0)
    with pytest.warns(DivergenceWarning, match="the error grows like sqrt"):
        result = vs.sweep({"mu": 1.0}, "ring:9", normal, asked, "learn", rounds=100).result
    assert any("diverges" in note for note in result.warnings)
    cop = vs.theory.expected(result.problem).privacy[:, 0]
    assert cop[100] > 1.5 * cop[10]
    later = vs.theory.expected(replace(result.problem, rounds=1000)).privacy[:, 0]
    assert later[1000] > 2 * later[100]
    vs.sweep({"mu": 1.0}, "ring:9", normal, asked, "learn-network", rounds=100)  # no warning
    vs.sweep({"mu": 1.0}, "ring:9", normal, vs.privacy.SignalDP(1.0), "learn", rounds=100)


@pytest.mark.parametrize("eta", [5.0, 2.1, 1.9])
def test_a_learning_rate_that_diverges_is_warned_of(eta: float) -> None:
    """3e62 after 100 rounds, and no warning."""
    family, asked = vs.families.Normal(1.0), vs.privacy.NoPrivacy()
    with pytest.warns(DivergenceWarning, match="eta must be at most 0.06"):
        result = vs.sweep(
            {"mu": 1.0}, "ring:9", family, asked, "first-order", rounds=100, eta=eta
        ).result
    assert float(result.errors.total) > 1e9 or eta < 2


def test_the_largest_learning_rate_that_converges_is_not() -> None:
    family, asked = vs.families.Normal(1.0), vs.privacy.NoPrivacy()
    made = vs.networks.metropolis("ring:9")
    largest = 1 + made.lambda_n
    quiet = vs.sweep(
        {"mu": 1.0}, made, family, asked, "first-order", rounds=2000, eta=0.999 * largest
    ).result
    assert float(quiet.errors.total) < 10
    with pytest.warns(DivergenceWarning):
        loud = vs.sweep(
            {"mu": 1.0}, made, family, asked, "first-order", rounds=2000, eta=1.1 * largest
        ).result
    assert float(loud.errors.total) > 10
