"""Noise in parts has the stated distribution, exactly, and h parts are one discrete Laplace.

The exact tests follow every choice of the sampler. Statistical ones read a fixed stream; on a fresh
one each would raise a false alarm with probability below 1e-7.
"""

import ast
import inspect
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest

from tests.privacy.gdl import FALSE_ALARM, LIMIT, chi_square, deviation, pmf, precise, stream
from veilsum.errors import PrivacyError
from veilsum.privacy.exact import poisson
from veilsum.privacy.exact.poisson import PoissonCoin, PoissonSampler, log_bracket
from veilsum.privacy.laws import DiscreteLaplace, GeneralizedDiscreteLaplace
from veilsum.privacy.laws.shares import TailCoin
from veilsum.testing import PredictableEntropy

parts: Any = import_module(GeneralizedDiscreteLaplace.__module__)

SHARP = 1e-25  # relative, of comparisons with 60 digits
SCALES = [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(9)]


class Tree:
    """Every sequence of choices of a sampler, with its probability: what is left open is counted."""

    def __init__(self, depth: int) -> None:
        self.depth, self.open = depth, mp.mpf(0)
        self.found: defaultdict[int, Any] = defaultdict(lambda: mp.mpf(0))

    def explore(self, run: Callable[[], int]) -> None:
        pending: list[list[tuple[Any, Any]]] = [[]]
        while pending:
            self.script, self.at = pending.pop(), 0
            self.branches: list[tuple[int, Any]] = []
            try:
                value = run()
            except StopIteration:
                self.open += self.weight()
            else:
                self.found[value] += self.weight()
            for at, others in self.branches:
                pending += [[*self.script[:at], one] for one in others]

    def weight(self) -> Any:
        return mp.fprod(p for _, p in self.script)

    def choose(self, options: list[tuple[Any, Any]]) -> Any:
        if self.at == len(self.script):
            if self.at == self.depth:
                raise StopIteration
            self.branches.append((self.at, options[1:]))
            self.script.append(options[0])
        self.at += 1
        return self.script[self.at - 1][0]


def jumps(noise: Any, monkeypatch: pytest.MonkeyPatch, depth: int = 6) -> Tree:
    """The exact distribution of one proposal's jump."""
    tree = Tree(depth)

    def below(bound: int, _: Any) -> int:
        chosen: int = tree.choose([(i, mp.mpf(1) / bound) for i in range(bound)])
        return chosen

    def two(p: Any) -> bool:
        assert p <= 1
        shown: bool = tree.choose([(True, p), (False, 1 - p)])
        return shown

    def toss(coin: TailCoin, _: Any) -> bool:
        p = mp.mpf(2) ** coin.shift * mp.exp(-mp.mpf(coin.gamma.numerator) / coin.gamma.denominator)
        return two(p)

    def rational(p: Fraction, _: Any) -> bool:
        return two(mp.mpf(p.numerator) / p.denominator)

    monkeypatch.setattr(parts, "uniform_below", below)
    monkeypatch.setattr(parts, "bernoulli", rational)
    monkeypatch.setattr(TailCoin, "toss", toss)
    with mp.workdps(40):
        tree.explore(lambda: noise._jump(None))
    return tree


@pytest.mark.parametrize("scale", SCALES)
def test_a_proposal_jumps_by_k_with_intensity_r_to_the_k_over_k(
    scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = GeneralizedDiscreteLaplace(Fraction(1, 3), scale)
    proposals = noise._proposals.mean / noise.order  # 2 W
    tree = jumps(noise, monkeypatch)
    whole = [k for k in tree.found if 0 < abs(k) < 2 ** (noise._top + 1)]
    assert len(whole) == 2 * (2 ** (noise._top + 1) - 1)
    with mp.workdps(40):
        for k in whole:
            intensity = mp.mpf(proposals.numerator) / proposals.denominator * tree.found[k]
            due = mp.exp(-abs(k) * mp.mpf(scale.denominator) / scale.numerator) / abs(k)
            assert abs(intensity / due - 1) < SHARP
        assert abs(sum(tree.found.values()) + tree.open - 1) < SHARP


def test_levels_beyond_the_scale_are_thinned_to_the_same_intensity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a short scale the levels 1, 2, 3 are all of the tail, k = 2 to 15 among them."""
    tree = jumps(GeneralizedDiscreteLaplace(Fraction(1), Fraction(1)), monkeypatch, depth=8)
    with mp.workdps(40):
        for k in range(1, 8):
            assert abs(4 * tree.found[k] / (mp.exp(-k) / k) - 1) < SHARP


WIDE = [Fraction(1, 1000), Fraction(4096), Fraction(10**6, 3), Fraction(2**40 - 1), Fraction(2**40)]


def one_jump(noise: Any, level: int, offset: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The jump k = 2^level + offset, and its probability: that of every choice on the way to it."""
    top, chosen = noise._top, mp.mpf(1)
    beyond = max(level - top, 0)  # coins that go on: 1 for each level beyond the first, then 0
    words = iter([min(level, top + 1), *[1] * max(beyond - 1, 0), *[0] * min(beyond, 1), offset, 0])

    def below(bound: int, _: Any) -> int:
        nonlocal chosen
        chosen /= bound
        word = int(next(words))
        assert 0 <= word < bound
        return word

    def rational(p: Fraction, _: Any) -> bool:
        nonlocal chosen
        chosen *= mp.mpf(p.numerator) / p.denominator
        return True

    def toss(coin: TailCoin, _: Any) -> bool:
        nonlocal chosen
        p = mp.mpf(2) ** coin.shift * mp.exp(-mp.mpf(coin.gamma.numerator) / coin.gamma.denominator)
        assert p <= 1
        chosen *= p
        return True

    monkeypatch.setattr(parts, "uniform_below", below)
    monkeypatch.setattr(parts, "bernoulli", rational)
    monkeypatch.setattr(TailCoin, "toss", toss)
    jump = noise._jump(None)
    assert next(words, None) is None
    return jump, chosen


def intensity_over_due(
    scale: Fraction, level: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> Any:
    noise = GeneralizedDiscreteLaplace(Fraction(1, 3), scale)
    proposals = noise._proposals.mean / noise.order
    k, chance = one_jump(noise, level, offset, monkeypatch)
    assert k == 2**level + offset
    due = mp.exp(-k * mp.mpf(scale.denominator) / scale.numerator) / k
    return mp.mpf(proposals.numerator) / proposals.denominator * chance / due


@pytest.mark.parametrize("scale", WIDE)
def test_at_every_scale_a_jump_has_its_intensity(
    scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 1/1000 to 2^40, where trees of all choices are too large: single branches, to 25 digits."""
    top = GeneralizedDiscreteLaplace(Fraction(1), scale)._top
    rng = np.random.default_rng(3)
    with mp.workdps(60):
        for level in {0, top // 2, top, top + 1, top + 3}:
            for offset in {0, 2**level - 1, int(rng.integers(2**level))}:
                ratio = intensity_over_due(scale, level, offset, monkeypatch)
                assert abs(ratio - 1) < SHARP


def test_a_scale_that_is_one_in_a_trillion_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weakened variant: the exponent in floating point, at the longest scale."""
    scale = Fraction(2**40 - 1)
    usual = TailCoin

    def rounded(gamma: Fraction, shift: int) -> TailCoin:
        return usual(Fraction(float(gamma)), shift)

    monkeypatch.setattr(parts, "TailCoin", rounded)
    with mp.workdps(60):
        assert abs(intensity_over_due(scale, 40, 12345, monkeypatch) - 1) > SHARP


def test_the_check_of_intensities_finds_a_wrong_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weakened variant: the tail's coin without its factor 2^m."""
    noise = GeneralizedDiscreteLaplace(Fraction(1), Fraction(1))
    monkeypatch.setattr(parts, "TailCoin", lambda gamma, _: TailCoin(gamma, 0))
    tree = jumps(noise, monkeypatch, depth=8)
    assert abs(4 * tree.found[3] / (mp.exp(-3) / 3) - 1) > 0.4


@pytest.mark.parametrize("mean", [Fraction(1, 10**6), Fraction(3, 7), Fraction(28), Fraction(128)])
def test_the_table_of_a_poisson_has_its_true_places(mean: Any) -> None:
    table = PoissonSampler(mean)._table
    with mp.workdps(80):
        m = mp.mpf(mean.numerator) / mean.denominator
        total = mp.mpf(0)
        for k, due in enumerate(table):
            total += mp.exp(-m) * m**k / mp.factorial(k)
            assert due == int(mp.floor(total * 2**64))
    assert table[-1] == 2**64 - 1


class Words(PredictableEntropy):
    """Words that are given, then those of a stream."""

    def __init__(self, *given: int) -> None:
        super().__init__(1, simulation_only=True)
        self.given = list(given)

    def read(self, count: int) -> bytes:
        return self.given.pop(0).to_bytes(8, "little") if self.given else super().read(count)


def test_a_tie_of_the_inversion_is_settled_by_the_places_that_follow() -> None:
    sampler = PoissonSampler(Fraction(3, 7))
    for k in (0, 1, 5):
        tie, due = sampler._table[k], sampler._floor(k, 128) & (2**64 - 1)
        assert sampler.draw(1, Words(tie, due - 1)) == [k]
        assert sampler.draw(1, Words(tie, due + 1)) == [k + 1]
    far = sampler.draw(1, Words(2**64 - 1, 2**64 - 1, 2**64 - 5))[0]
    assert far > len(sampler._table)  # beyond the table


class Places(PredictableEntropy):
    """Whole numbers that are given, each in as many bytes as are asked for."""

    def __init__(self, *given: int) -> None:
        super().__init__(1, simulation_only=True)
        self.given = list(given)

    def read(self, count: int) -> bytes:
        return self.given.pop(0).to_bytes(count, "little")


@pytest.mark.parametrize(
    "coin",
    [
        TailCoin(Fraction(1, 3)),
        TailCoin(Fraction(7, 2), 1),
        TailCoin(Fraction(2**40 + 1, 2**38), 2),
    ],
)
def test_a_tail_coin_compares_all_places_of_its_probability(coin: TailCoin) -> None:
    """16 places settle nearly all tosses; no test of draws would see that a tie is cut off there."""
    with mp.workdps(80):
        gamma = mp.mpf(coin.gamma.numerator) / coin.gamma.denominator
        places = int(mp.floor(mp.exp(-gamma) * 2**coin.shift * mp.mpf(2) ** 144))
    first, second, third = places >> 128, places >> 64 & (2**64 - 1), places & (2**64 - 1)
    for given, shown in (
        ((first - 1,), True),
        ((first + 1,), False),
        ((first, second - 1), True),
        ((first, second + 1), False),
        ((first, second, third - 1), True),
        ((first, second, third + 1), False),
    ):
        entropy = Places(*given)
        assert coin.toss(entropy) is shown
        assert not entropy.given


def test_a_tie_of_the_coin_of_a_large_mean_is_settled_by_the_places_that_follow() -> None:
    coin = PoissonCoin(Fraction(2000, 7), 9, PoissonSampler(Fraction(2000, 7))._centre[1])
    places = coin.floor(128)
    first, second = places >> 64, places & (2**64 - 1)
    assert coin.toss(Places(first - 1))
    assert not coin.toss(Places(first + 1))
    assert coin.toss(Places(first, second - 1))
    assert not coin.toss(Places(first, second + 1))


@pytest.mark.parametrize("mean", [Fraction(129), Fraction(2000, 7), Fraction(2**40 + 1, 3)])
@pytest.mark.parametrize("deviations", [-6, -1, 0, 1, 7])
def test_the_coin_of_a_large_mean_has_its_true_places(mean: Any, deviations: Any) -> None:
    mode, width = PoissonSampler(mean)._centre
    x = deviations * width
    coin = PoissonCoin(mean, x, width)
    with mp.workdps(120):
        m = mp.mpf(mean.numerator) / mean.denominator
        ratio = x * mp.log(m) + mp.loggamma(mode + 1) - mp.loggamma(mode + x + 1)
        p = mp.exp(ratio + mp.mpf(abs(x)) / width - 1 - mp.mpf(1) / (2 * width))
        assert p < 1
        for bits in (64, 160):
            assert coin.floor(bits) == int(mp.floor(p * 2**bits))


@pytest.mark.parametrize("mean", [Fraction(128), Fraction(300), Fraction(5000)])
def test_no_coin_of_a_large_mean_exceeds_one(mean: Any) -> None:
    mode, width = PoissonSampler(mean)._centre
    largest = max(
        PoissonCoin(mean, x, width).bracket(32)[1] for x in range(-min(mode, 4 * width), 4 * width)
    )
    assert largest < 2**32


@pytest.mark.parametrize("x", [Fraction(1, 10**9), Fraction(1), Fraction(2**70, 3), Fraction(7, 5)])
def test_brackets_hold_the_logarithm_and_are_narrow(x: Any) -> None:
    with mp.workdps(80):
        due = mp.log(mp.mpf(x.numerator) / x.denominator) * 2**100
    low, high = log_bracket(x, 100)
    assert low <= due <= high
    assert high - low <= 16


@pytest.mark.parametrize("mean", [Fraction(130), Fraction(10**9, 7)])
def test_poisson_draws_of_a_large_mean_have_its_moments(mean: Any) -> None:
    draws = np.array(PoissonSampler(mean).draw(600, stream(3)), dtype=np.float64) - float(mean)
    sd = float(mean) ** 0.5
    assert abs(draws.mean()) < LIMIT * sd / 600**0.5
    assert abs(draws.var() / float(mean) - 1) < 1.5 * LIMIT * (2 / 600) ** 0.5


def summed(h: int, order: Fraction, scale: Fraction, count: int, seed: int) -> Any:
    drawn = GeneralizedDiscreteLaplace(order, scale).draw(h * count, stream(seed))
    return drawn.reshape(count, h).sum(axis=1)


CASES = [
    (3, Fraction(1, 2), 16_000),
    pytest.param(2, Fraction(3), 25_000, marks=pytest.mark.slow),
    pytest.param(10, Fraction(40), 25_000, marks=pytest.mark.slow),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("h", "scale", "count"), CASES)
def test_h_parts_are_one_discrete_laplace_and_a_wrong_scale_is_found(
    h: int, scale: Any, count: int
) -> None:
    reach = int(30 * scale) + 5
    right = np.array([float(DiscreteLaplace(scale).pmf(k)[0]) for k in range(-reach, reach + 1)])
    draws = summed(h, Fraction(1, h), scale, count, seed=1)
    wrong = pmf(1, scale * Fraction(21, 20), reach)
    assert abs(deviation(draws, right, wrong)) < LIMIT
    assert chi_square(draws, right) > FALSE_ALARM
    off = GeneralizedDiscreteLaplace(Fraction(1, h), scale * Fraction(21, 20))
    sums = off.sample((count, h), np.random.default_rng(2)).sum(axis=1)
    assert deviation(sums, right, wrong) > LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(("h", "scale"), [(2, Fraction(3)), (5, Fraction(7))])
def test_a_wrong_order_or_scale_of_five_percent_is_found(h: int, scale: Any) -> None:
    reach, count = int(30 * scale), 50_000
    right, wrong = pmf(1, scale, reach), pmf(1.05, scale, reach)
    assert abs(deviation(summed(h, Fraction(1, h), scale, count, 1), right, wrong)) < LIMIT
    assert deviation(summed(h, Fraction(21, 20 * h), scale, count, 2), right, wrong) > LIMIT
    longer = scale * Fraction(21, 20)
    off = summed(h, Fraction(1, h), longer, count, 3)
    assert deviation(off, right, pmf(1, longer, reach)) > LIMIT


@pytest.mark.parametrize(
    ("order", "scale", "count"),
    [
        (Fraction(1, 50), Fraction(40), 15_000),
        (Fraction(1, 5), Fraction(3), 6_000),
        (Fraction(3, 2), Fraction(1, 4), 3_000),
    ],
)
def test_single_parts_have_their_probabilities(order: Any, scale: Any, count: int) -> None:
    draws = GeneralizedDiscreteLaplace(order, scale).draw(count, stream(5))
    right = pmf(order, scale, int(30 * scale) + 5)
    assert chi_square(draws, right) > FALSE_ALARM
    assert chi_square(draws, pmf(order * 2, scale, int(30 * scale) + 5)) < FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(40)])
@pytest.mark.parametrize("h", [1, 5, 50])
def test_the_fast_sampler_has_the_same_probabilities(h: int, scale: Any) -> None:
    order, count, reach = Fraction(1, h), 100_000, int(30 * scale) + 5
    right, wrong = pmf(order, scale, reach), pmf(order, scale * Fraction(21, 20), reach)
    rng = np.random.default_rng(7)
    draws = GeneralizedDiscreteLaplace(order, scale).sample(count, rng)
    assert abs(deviation(draws, right, wrong)) < LIMIT
    assert chi_square(draws, right) > FALSE_ALARM
    if h < 50:
        off = GeneralizedDiscreteLaplace(order, scale * Fraction(21, 20)).sample(count, rng)
        assert deviation(off, right, wrong) > LIMIT


@pytest.mark.parametrize("k", [0, 1, 7, 200])
def test_the_two_ways_to_compute_probabilities_agree(k: int) -> None:
    for order, scale in [(Fraction(1, 3), Fraction(40)), (Fraction(1, 50), Fraction(2))]:
        due = float(precise(order, scale, k))
        assert pmf(order, scale, 200)[200 + k] == pytest.approx(due, rel=1e-9)


def test_the_shortest_scale_is_nearly_always_zero_and_the_longest_has_its_size() -> None:
    """P(X != 0) < 2 e^-1000; at 2^40 the mean of |X| is that of a discrete Laplace, t."""
    assert not GeneralizedDiscreteLaplace(Fraction(1, 2), Fraction(1, 1000)).draw(500).any()
    longest = GeneralizedDiscreteLaplace(Fraction(1, 2), Fraction(2**40))
    sums = longest.draw(400, stream(9)).reshape(200, 2).sum(axis=1) / 2**40
    assert abs(np.abs(sums).mean() - 1) < LIMIT / 200**0.5
    assert abs(sums.mean()) < LIMIT * (2 / 200) ** 0.5


@pytest.mark.parametrize(
    ("order", "scale"),
    [
        (0.5, Fraction(1)), (Fraction(1), 2.0), (Fraction(0), Fraction(1)), (True, Fraction(1)),
        (Fraction(1), Fraction(2**40 + 1)), (Fraction(1), Fraction(1, 1001)),
        (Fraction(1, 10**10), Fraction(1)),
    ],
)  # fmt: skip
def test_what_is_no_fraction_in_range_is_refused(order: Any, scale: Any) -> None:
    with pytest.raises(PrivacyError, match="must be a Fraction"):
        GeneralizedDiscreteLaplace(order, scale)
    with pytest.raises(PrivacyError, match="must be a Fraction"):
        PoissonSampler(0.5)  # type: ignore[arg-type]


def floats_in(source: str) -> list[str]:
    """Literal floats, true divisions of whole numbers, and calls of float, log, exp and numpy."""
    banned = {"float", "log", "exp", "expm1", "log2", "sqrt", "random", "rng"}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            found.append(ast.unparse(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in banned:
            found.append(ast.unparse(node))
    return found


EXACT = [
    inspect.getsource(poisson),
    *("class C:\n" + inspect.getsource(getattr(GeneralizedDiscreteLaplace, name))
      for name in ("draw", "_jump")),
    inspect.getsource(TailCoin),
]  # fmt: skip


def test_no_float_is_in_the_source_of_the_exact_samplers() -> None:
    assert not [one for source in EXACT for one in floats_in(source)]
    assert floats_in(inspect.getsource(parts))  # `sample` and `variance` have them


def test_no_float_is_made_while_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a float was made")

    noise = GeneralizedDiscreteLaplace(Fraction(1, 3), Fraction(700, 3))
    monkeypatch.setattr(Fraction, "__float__", refuse, raising=False)
    for name in ("exp", "log", "sqrt", "expm1"):
        monkeypatch.setattr(f"math.{name}", refuse)
    drawn = noise.draw(200, stream(2))
    assert drawn.dtype == np.int64
    assert all(type(one) is int for one in PoissonSampler(Fraction(999, 2)).draw(20, stream(2)))
