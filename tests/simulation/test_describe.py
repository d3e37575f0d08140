"""Descriptions by contents: equal for equal things, different for all others."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

from veilsum import algorithms, families, networks
from veilsum.algorithms.base import COLUMN, Algorithm, Coefficients
from veilsum.errors import VeilsumError
from veilsum.simulation.describe import described, exactly, is_exact

SUPPORT = families.Support(0.0, 1.0)
FACTOR = 1.0


def custom(
    statistic: Any = np.square, sensitivity: Any = 1.0, support: Any = SUPPORT, **options: Any
) -> Any:
    return families.Custom(statistic, support, sensitivity, **options)


def times(factor: Any) -> Any:
    return lambda s: factor * s


def scaled(s: Any, factor: Any = 2.0, *, offset: Any = 0.0) -> Any:
    return factor * s + offset


class Meter:
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def read(self, s: Any) -> Any:
        return self.factor * s

    @cached_property
    def twice(self) -> Any:
        return 2 * self.factor


class Gain(Algorithm):
    name, start = "gain", Coefficients(innovation=1.0, noise=1.0)
    gain: Any

    def __init__(self, gain: Any) -> None:
        object.__setattr__(self, "gain", gain)

    def coefficients(self, t: Any) -> Any:
        return Coefficients(mixing=self.gain / t)


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a


class Whole(int):
    pass


class Pair(NamedTuple):
    a: float
    b: float


@dataclass
class Container:
    content: object


def algorithm_class(noise: Any, divisor: Any) -> Any:
    class Local(Algorithm):
        name, start = "local", Coefficients(innovation=1.0, noise=noise)

        def coefficients(self, t: Any) -> Any:
            return Coefficients(mixing=1 / divisor, own=0.0 * t)

    return Local


MAKERS: dict[str, Callable[[int], Any]] = {
    "sensitivity": lambda k: custom(sensitivity=1.0 + k),
    "support": lambda k: custom(support=families.Support(0.0, 1.0 + k)),
    "statistic": lambda k: custom((lambda s: s, lambda s: 2 * s)[k]),
    "constant": lambda k: custom((lambda s: 2.0 * s, lambda s: 3.0 * s)[k]),
    "ufunc": lambda k: custom((np.square, special.expit)[k]),
    "builtin": lambda k: custom(sensitivity=(math.sqrt, math.exp)[k]),
    "closure": lambda k: custom(times(1.0 + k)),
    "array in a closure": lambda k: custom(times(np.array([1.0, k]))),
    "bound method": lambda k: custom(Meter(1.0 + k).read),
    "partial": lambda k: custom(partial(scaled, factor=1.0 + k)),
    "dimension": lambda k: custom(dimension=1 + k),
    "lru_cache": lambda k: lru_cache(times(k)),
    "algorithm with attributes": lambda k: Gain(1.0 + k),
    "class attribute of an algorithm": lambda k: algorithm_class(1.0 + k, 2.0)(),
    "closure of an algorithm's method": lambda k: algorithm_class(1.0, 2.0 + k)(),
    "slots": lambda k: Slotted(k),
    "number with a class of its own": lambda k: Whole(k),
    "named tuple": lambda k: Pair(1.0, k),
    "nested": lambda k: Container({"a": [Container(np.float32(k))]}),
    "dtype": lambda k: np.zeros(2, (np.float64, np.int64)[k]),
    "shape": lambda k: np.zeros(((2, 3), (3, 2))[k]),
    "array of objects": lambda k: np.array([Meter(k), None], dtype=object),
    "type of a number": lambda k: (1, 1.0)[k],
    "sign of zero": lambda k: (0.0, -0.0)[k],
    "container": lambda k: ((1,), [1])[k],
    "generator of numbers": lambda k: np.random.default_rng(k),
    "seed of link failures": lambda k: networks.link_failures("ring:7", 0.3, seed=k),
    "family": lambda k: families.get("normal", sigma=1.0 + k),
}


@pytest.mark.parametrize("name", MAKERS)
def test_things_that_differ_have_other_descriptions_and_equal_ones_the_same(name: Any) -> None:
    """Custom families and algorithms used to be their type's name, and a lambda its module's."""
    first, second = (MAKERS[name](k) for k in (0, 1))
    assert is_exact(first)
    assert is_exact(second)
    assert described(first) != described(second)
    assert described(first) == described(MAKERS[name](0))
    assert exactly(second, "it") == described(MAKERS[name](1))


def test_defaults_count() -> None:
    keep, code = scaled.__defaults__, described(scaled)
    named = scaled.__kwdefaults__
    assert named is not None
    try:
        scaled.__defaults__ = (3.0,)
        assert described(scaled) != code
        scaled.__defaults__ = keep
        named["offset"] = 1.0
        assert described(scaled) != code
    finally:
        scaled.__defaults__, named["offset"] = keep, 0.0
    assert described(scaled) == code


def helper(s: Any) -> Any:
    return FACTOR * s


def through(s: Any) -> Any:
    return helper(s)


def test_globals_that_a_function_reads_count_at_any_distance(monkeypatch: Any) -> None:
    before = described(through)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert described(through) != before
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    assert described(through) == before


def test_what_a_function_reads_of_a_module_counts(monkeypatch: Any) -> None:
    settings: Any = ModuleType("settings")
    settings.factor, settings.other = 1.0, 1.0
    monkeypatch.setitem(globals(), "settings", settings)
    function = eval("lambda s: settings.factor * s", globals())
    before = described(function)
    settings.other = 2.0
    assert described(function) == before
    settings.factor = 2.0
    assert described(function) != before
    assert is_exact(function)


def test_a_cached_value_does_not_change_a_description() -> None:
    meter = Meter(3.0)
    before = described(meter)
    assert meter.twice == 6.0
    assert described(meter) == before


def test_a_thing_that_holds_itself_is_described() -> None:
    meter = Meter(1.0)
    meter.factor = [meter]
    other = Meter(1.0)
    other.factor = [other]
    assert is_exact(meter)
    assert described(meter) == described(other)
    other.factor.append(1)
    assert described(meter) != described(other)


def too_many() -> Any:
    return [[k] for k in range(30_000)]


def failing() -> Any:
    class Failing:
        @property
        def __dict__(self) -> None:  # type: ignore[override]
            raise RuntimeError

    return Failing()


UNREADABLE: dict[str, Callable[[], Any]] = {
    "generator": lambda: (k for k in range(3)),
    "custom ufunc": lambda: np.frompyfunc(abs, 1, 1),
    "iterator": lambda: iter([1]),
    "too many": too_many,
    "failing": failing,
    "module": lambda: ModuleType("settings"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_never_described_alike(name: Any) -> None:
    """Used to: two of one type had one description."""
    thing = Container(UNREADABLE[name]())
    assert not is_exact(thing)
    assert len({described(thing) for _ in range(5)}) == 5
    with pytest.raises(
        VeilsumError, match=r"the family cannot be distinguished from others.*content"
    ):
        exactly(thing, "the family")


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_is_described_exactly(name: Any) -> None:
    column = COLUMN in algorithms.ALGORITHMS[name].kinds
    net = (networks.column_stochastic if column else networks.metropolis)(networks.ring(7))
    first, again = (algorithms.get(name, net) for _ in range(2))
    assert exactly(first, "algorithm") == exactly(again, "algorithm")


@pytest.mark.parametrize("name", families.names())
def test_every_family_is_described_exactly_before_and_after_use(name: Any) -> None:
    first, again = (families.FAMILIES[name].examples()[0].family for _ in range(2))
    before = exactly(first, name)
    assert first.support.describe()
    assert first.moves(1.0)
    assert first.parameter(np.full(first.dimension, 0.3))
    assert exactly(first, name) == before == exactly(again, name)
