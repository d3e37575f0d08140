"""The field against Python's integers, and decoding against what was spoilt."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.fleet.secure_sum import field
from veilsum.fleet.secure_sum.field import P

EDGES = [0, 1, 2, P - 1, P - 2, P // 2, 1 << 60, (1 << 31) - 1, 1 << 31, (1 << 42) - 1]


def array(values: object) -> field.Elements:
    return np.array(values, np.uint64)


def drawn(rng: random.Random, *shape: int) -> field.Elements:
    count = int(np.prod(shape))
    values = [rng.choice(EDGES) if rng.random() < 0.3 else rng.randrange(P) for _ in range(count)]
    return array(values).reshape(shape)


@given(st.integers(0, P - 1), st.integers(0, P - 1), st.integers(0, 200))
def test_elements_against_integers(a: int, b: int, bits: int) -> None:
    x, y = array([a]), array([b])
    assert int(field.rotated(x, bits)[0]) % P == (a << bits) % P
    assert int(field.times(x, y)[0]) == a * b % P
    assert int(field.plus(x, y)[0]) == (a + b) % P
    assert int(field.negated(x)[0]) == -a % P


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (2, 1300, 3), (20, 600, 1), (4, 0, 2)])
def test_matrix_products_are_exact(shape: tuple[int, int, int]) -> None:
    rng = random.Random(str(shape))
    rows, inner, columns = shape
    a, b = drawn(rng, rows, inner), drawn(rng, inner, columns)
    full = array([P - 1] * (rows * inner)).reshape(rows, inner)
    for left in (a, full):
        expected = (left.astype(object) @ b.astype(object)) % P if inner else np.zeros((4, 2))
        assert (field.product(left, b).astype(object) == expected).all()


def test_sums_and_powers() -> None:
    rng = random.Random(1)
    x = drawn(rng, 5000, 3)
    assert field.total_of(x).tolist() == [sum(map(int, column)) % P for column in x.T]
    r = drawn(rng, 4)
    expected = [[pow(int(a), m, P) for m in range(1, 8)] for a in r]
    assert field.powers(r, 7).tolist() == expected


def test_uniform_elements_skip_the_word_p() -> None:
    drawn_bytes = np.array([P, 5, P, 7, 8], "<u8").tobytes()
    assert field.elements([drawn_bytes], 2).tolist() == [[5, 7]]
    high = np.array([(7 << 61) | 3, 5, 6, 7, 8], "<u8").tobytes()
    assert field.elements([high, drawn_bytes], 2).tolist() == [[3, 5], [5, 7]]


def test_parts_are_kept_apart() -> None:
    assert field.digest(b"ab", b"c") != field.digest(b"a", b"bc")
    assert field.uniform(3, b"ab", b"c").tolist() != field.uniform(3, b"a", b"bc").tolist()


def test_elements_from_bytes() -> None:
    assert field.from_bytes(field.to_bytes(array([1, P - 1]))) is not None
    assert field.from_bytes(field.to_bytes(array([1, P]))) is None
    assert field.from_bytes(b"123") is None


def evaluated(coefficients: list[int], points: list[int]) -> field.Elements:
    return array([sum(a * x**i for i, a in enumerate(coefficients)) % P for x in points])


@pytest.mark.parametrize(("m", "t"), [(5, 4), (5, 5), (12, 5), (40, 21)])
def test_decoding_finds_all_that_is_wrong_up_to_the_bound(m: int, t: int) -> None:
    rng = random.Random(m)
    points = sorted(rng.sample(range(1, 3 * m), m))
    for wrong in range((m - t) // 2 + 1):
        values = evaluated([rng.randrange(P) for _ in range(t)], points)
        spoilt = set(rng.sample(points, wrong))
        for i, x in enumerate(points):
            if x in spoilt:
                values[i] = (int(values[i]) + rng.choice([1, P - 1, rng.randrange(1, P)])) % P
        good = field.decode(tuple(points), values, t)
        assert good == [x for x in points if x not in spoilt]


def test_decoding_beyond_the_bound_finds_nothing_else() -> None:
    """Three random errors of a bound of two: nothing is near, but for a chance of 2^-55."""
    rng = random.Random(3)
    points = list(range(1, 11))
    for _ in range(50):
        values = evaluated([rng.randrange(P) for _ in range(6)], points)
        for i in rng.sample(range(10), 3):
            values[i] = rng.randrange(P)
        assert field.decode(tuple(points), values, 6) is None
    assert field.decode((1, 2), array([1, 2]), 3) is None


def test_lagrange_takes_values_to_other_points() -> None:
    rng = random.Random(4)
    coefficients = [rng.randrange(P) for _ in range(6)]
    nodes, at = [-2, -1, 0, 1, 3, 7], [2, 4, 100]
    values = evaluated(coefficients, nodes).reshape(-1, 1)
    there = field.product(field.lagrange(tuple(nodes), tuple(at)), values)
    assert there[:, 0].tolist() == evaluated(coefficients, at).tolist()
