"""The fast noise: the published vectors, the stated distribution and no other, no hidden state."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum.simulation import noise

VECTORS = [  # Philox4x32-7, from the known answers of Random123
    ([0] * 4, [0] * 2, "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "5207ddc2 45165e59 4d8ee751 8c52f662"),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        "4dfccaba 190a87f0 c47362ba b6b5242a",
    ),
]
COUNT = 400_000


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_philox_gives_the_published_words(counter: Any, key: Any, expected: Any) -> None:
    got = noise.words(np.array(counter, np.uint64), np.array(key, np.uint64))
    assert " ".join(f"{int(w):08x}" for w in got) == expected


def draws(seed: Any = 7, t: Any = 3, stream: Any = 5) -> Any:
    return noise.laplace(seed, t, np.arange(COUNT), stream)


@pytest.mark.thorough
@pytest.mark.parametrize("stream", [0, 4, 11, 15])
def test_draws_follow_the_laplace_distribution_and_no_other_scale(stream: Any) -> None:
    """Two-sided: false alarm 1e-7 at the stated scale, sure rejection at 0.97 and 1.03 of it.

    A scale off by 3% moves the distribution function by up to 0.03/(2e) = 0.0055, so that 1.6
    million draws reject it with p near 2 exp(-2 x 49) = 1e-42. Streams 0 and 11 are made of the
    first half of a block of words, 4 and 15 of the second.
    """
    x = noise.laplace(7, 3, np.arange(4 * COUNT), stream)
    assert stats.kstest(x, "laplace").pvalue > 1e-7
    for wrong in (0.97, 1.03):
        assert stats.kstest(x / wrong, "laplace").pvalue < 1e-20


def test_moments_and_tails() -> None:
    x = draws(seed=8)
    # standard errors: 2/n for the mean's variance, Var(x^2) = 20 for the second moment; z < 6
    assert abs(x.mean()) < 6 * np.sqrt(2 / COUNT)
    assert abs((x**2).mean() - 2) < 6 * np.sqrt(20 / COUNT)
    beyond = (np.abs(x) > 10).sum()
    assert abs(beyond - COUNT * np.exp(-10)) < 6 * np.sqrt(COUNT * np.exp(-10))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"seed": 1}, {"seed": 2}),
        ({"t": 1}, {"t": 2}),
        ({"stream": 1}, {"stream": 2}),
        ({"stream": 1}, {"stream": 5}),
        ({"stream": 5}, {"stream": 13}),
        ({"seed": 1}, {"seed": 1 + 2**32}),
    ],
    ids=["seed", "round", "stream", "halves of a block", "blocks", "high word of the seed"],
)
def test_different_keys_give_independent_noise(first: Any, second: Any) -> None:
    """Correlation of 400,000 pairs: false alarm below 1e-8 at z = 6."""
    x, y = draws(**first), draws(**second)
    assert abs(np.corrcoef(x, y)[0, 1]) < 6 / np.sqrt(COUNT)
    assert abs(np.corrcoef(np.abs(x), np.abs(y))[0, 1]) < 6 / np.sqrt(COUNT)
    assert abs(np.corrcoef(np.sign(x), np.sign(y))[0, 1]) < 6 / np.sqrt(COUNT)


def test_neighbouring_agents_and_signs_are_independent() -> None:
    """Correlations of a draw with the next agent's, and of its sign with its size: z < 6."""
    x = draws(seed=10)
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 6 / np.sqrt(COUNT)
    assert abs(np.corrcoef(np.sign(x), np.abs(x))[0, 1]) < 6 / np.sqrt(COUNT)
    assert abs(np.sign(x).mean()) < 6 / np.sqrt(COUNT)


def test_links_have_noise_apart_from_the_agents() -> None:
    own, link = noise.laplace(1, 1, np.arange(1000), 0), noise.laplace(1, 1, np.arange(1000), 0, 1)
    assert not np.any(own == link)


def test_a_draw_does_not_depend_on_its_company() -> None:
    whole = noise.laplace(9, 4, np.arange(100), np.zeros(100))
    assert [noise.laplace(9, 4, i, 0).item() for i in range(100)] == list(whole)


def test_the_written_out_logarithm_is_accurate() -> None:
    """|log u - ours| is at most 2 units in the last place over the whole range of u."""
    rng = np.random.default_rng(1)
    agents = rng.integers(0, 2**32, 20_000)
    got = np.abs(noise.laplace(3, 0, agents, 0))
    key = noise.key_of(3)
    for agent, value in zip(agents[:2000], got[:2000], strict=True):
        a, b, _, _ = (int(w) for w in noise.words(np.array([agent, 0, 0, 0], np.uint64), key))
        u = (float(((a << 32) | b) >> 11) + 0.5) / 2**53
        assert value == pytest.approx(-np.log(u), rel=4e-15, abs=1e-16)
