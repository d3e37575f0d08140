"""Descriptions by contents: equal for equal things, different for all others."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special

from murmura import families, laws, network
from murmura.engine.describe import described, exactly, is_exact
from murmura.errors import MurmuraError
from murmura.families import registry
from murmura.laws.base import Coefficients, Law

SUPPORT = families.Support(0.0, 1.0)
FACTOR = 1.0


def custom(statistic=np.square, sensitivity=1.0, support=SUPPORT, **options):
    return families.Custom(statistic, support, sensitivity, **options)


def times(factor):
    return lambda s: factor * s


def scaled(s, factor=2.0, *, offset=0.0):
    return factor * s + offset


class Meter:
    def __init__(self, factor):
        self.factor = factor

    def read(self, s):
        return self.factor * s

    @cached_property
    def twice(self):
        return 2 * self.factor


class Gain(Law):
    name, start = "gain", Coefficients(learn=1.0, noise=1.0)

    def __init__(self, gain):
        object.__setattr__(self, "gain", gain)

    def coefficients(self, t):
        return Coefficients(mix=self.gain / t)


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Whole(int):
    pass


class Pair(NamedTuple):
    a: float
    b: float


@dataclass
class Held:
    content: object


def law_class(noise, divisor):
    class Local(Law):
        name, start = "local", Coefficients(learn=1.0, noise=noise)

        def coefficients(self, t):
            return Coefficients(mix=1 / divisor, keep=0.0 * t)

    return Local


MAKERS = {
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
    "law with attributes": lambda k: Gain(1.0 + k),
    "class attribute of a law": lambda k: law_class(1.0 + k, 2.0)(),
    "closure of a law's method": lambda k: law_class(1.0, 2.0 + k)(),
    "slots": lambda k: Slotted(k),
    "number with a class of its own": lambda k: Whole(k),
    "named tuple": lambda k: Pair(1.0, k),
    "nested": lambda k: Held({"a": [Held(np.float32(k))]}),
    "dtype": lambda k: np.zeros(2, (np.float64, np.int64)[k]),
    "shape": lambda k: np.zeros(((2, 3), (3, 2))[k]),
    "array of objects": lambda k: np.array([Meter(k), None], dtype=object),
    "type of a number": lambda k: (1, 1.0)[k],
    "sign of zero": lambda k: (0.0, -0.0)[k],
    "container": lambda k: ((1,), [1])[k],
    "generator of numbers": lambda k: np.random.default_rng(k),
    "seed of link failures": lambda k: network.link_failures("ring:7", 0.3, seed=k),
    "family": lambda k: families.get("normal", sigma=1.0 + k),
}


@pytest.mark.parametrize("name", MAKERS)
def test_things_that_differ_have_other_descriptions_and_equal_ones_the_same(name):
    """Families and laws of one's own used to be their type's name, and a lambda its module's."""
    first, second = (MAKERS[name](k) for k in (0, 1))
    assert is_exact(first)
    assert is_exact(second)
    assert described(first) != described(second)
    assert described(first) == described(MAKERS[name](0))
    assert exactly(second, "it") == described(MAKERS[name](1))


def test_defaults_count():
    keep, code = scaled.__defaults__, described(scaled)
    try:
        scaled.__defaults__ = (3.0,)
        assert described(scaled) != code
        scaled.__defaults__ = keep
        scaled.__kwdefaults__["offset"] = 1.0
        assert described(scaled) != code
    finally:
        scaled.__defaults__, scaled.__kwdefaults__["offset"] = keep, 0.0
    assert described(scaled) == code


def helper(s):
    return FACTOR * s


def through(s):
    return helper(s)


def test_globals_that_a_function_reads_count_at_any_distance(monkeypatch):
    before = described(through)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert described(through) != before
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    assert described(through) == before


def test_what_a_function_reads_of_a_module_counts(monkeypatch):
    settings = ModuleType("settings")
    settings.factor, settings.other = 1.0, 1.0
    monkeypatch.setitem(globals(), "settings", settings)
    function = eval("lambda s: settings.factor * s", globals())
    before = described(function)
    settings.other = 2.0
    assert described(function) == before
    settings.factor = 2.0
    assert described(function) != before
    assert is_exact(function)


def test_a_cached_value_does_not_change_a_description():
    meter = Meter(3.0)
    before = described(meter)
    assert meter.twice == 6.0
    assert described(meter) == before


def test_a_thing_that_holds_itself_is_described():
    meter = Meter(1.0)
    meter.factor = [meter]
    other = Meter(1.0)
    other.factor = [other]
    assert is_exact(meter)
    assert described(meter) == described(other)
    other.factor.append(1)
    assert described(meter) != described(other)


def too_many():
    return [[k] for k in range(30_000)]


def failing():
    class Failing:
        @property
        def __dict__(self):
            raise RuntimeError

    return Failing()


UNREADABLE = {
    "generator": lambda: (k for k in range(3)),
    "ufunc of one's own": lambda: np.frompyfunc(abs, 1, 1),
    "iterator": lambda: iter([1]),
    "too many": too_many,
    "failing": failing,
    "module": lambda: ModuleType("settings"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_never_described_alike(name):
    """Used to: two of one type had one description."""
    thing = Held(UNREADABLE[name]())
    assert not is_exact(thing)
    assert len({described(thing) for _ in range(5)}) == 5
    with pytest.raises(MurmuraError, match=r"the family cannot be told from others.*content"):
        exactly(thing, "the family")


@pytest.mark.parametrize("name", laws.names())
def test_every_law_is_described_exactly(name):
    column = name.startswith("push-sum")
    net = (network.column_stochastic if column else network.metropolis)(network.ring(7))
    first, again = (laws.get(name, net) for _ in range(2))
    assert exactly(first, "law") == exactly(again, "law")


@pytest.mark.parametrize("name", families.names())
def test_every_family_is_described_exactly_before_and_after_use(name):
    first, again = (families.get(name, **registry._TABLE[name][2]) for _ in range(2))
    before = exactly(first, name)
    assert first.support.describe()
    assert first.sensitivity(1.0)
    assert first.parameter(np.full(first.dimension, 0.3))
    assert exactly(first, name) == before == exactly(again, name)
