"""The figure and the tables of docs/masked-sum.md: what they show is computed, and adds up."""

import math
from itertools import combinations

import numpy as np
import pytest

from docs import masked_figure, masked_tables


def test_masks_of_the_figure_cancel_and_its_sum_is_right() -> None:
    rows = masked_figure.example()
    masks = [sum(row.masks.get(pair, 0) for row in rows) for pair in masked_figure.PAIRS]
    assert masks == [0] * math.comb(len(rows), 2)
    total = sum(row.published for row in rows) % masked_figure.MODULUS
    assert total == sum(row.statistic + row.noise for row in rows)
    assert all(set(a.masks) & set(b.masks) for a, b in combinations(rows, 2))


def test_curves_of_the_figure_are_the_distributions() -> None:
    part, whole = (
        masked_figure.probabilities(order, masked_figure.SCALE) for order in (1 / 5, 1.0)
    )
    k, r = np.arange(-2048, 2048), math.exp(-1 / masked_figure.SCALE)
    assert whole == pytest.approx((1 - r) / (1 + r) * r ** np.abs(k), abs=1e-12)
    five = np.fft.fftshift(np.fft.ifft(np.fft.fft(np.fft.ifftshift(part)) ** 5).real)
    assert five == pytest.approx(whole, abs=1e-12)
    assert part[2048] > 5 * whole[2048], "a part alone is mostly 0"


def test_bytes_of_secure_aggregation_give_the_published_expansions() -> None:
    """1.73 for 2^10 clients and 2^20 components of 16 bits, 1.98 for 2^14 and 2^24 (CCS 2017)."""
    for users, words, expansion in ((2**10, 2**20, 1.73), (2**14, 2**24, 1.98)):
        bits = 16 + math.log2(users)
        sent = 8 * masked_tables.secure_aggregation_bytes(users, words, bits)
        assert sent / (16 * words) == pytest.approx(expansion, abs=0.005)


def test_a_member_without_a_jump_is_what_the_sampler_finds() -> None:
    """20,000 draws; 6 standard deviations, false alarm below 1e-8; jumps that cancel are rare."""
    from fractions import Fraction

    from murmura.privacy.exact import GeneralizedDiscreteLaplace

    order, draws = Fraction(1, 35), 20_000
    noise = GeneralizedDiscreteLaplace(order, Fraction(2**12))
    zero = float((noise.sample(draws, np.random.default_rng(4)) == 0).mean())
    claimed = masked_tables._no_jump(order, 2.0**12)
    assert abs(zero - claimed) < 6 * math.sqrt(claimed * (1 - claimed) / draws) + 2e-3


def test_records_on_a_link_are_those_of_the_encoder() -> None:
    found = masked_tables.record_bytes(label=8)
    assert set(found) == {"Present", "Commit", "Ready", "Masked"}
    more = masked_tables.record_bytes(label=9, components=3)
    assert sum(more.values()) == sum(found.values()) + 4 + 2 * 8


def test_a_rule_whose_function_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert masked_tables.masked_rules().count("\n| R") == 6
    gone = (("R1", "one value", ("agents.masked.session:Session.no_such_function",)),)
    monkeypatch.setattr(masked_tables, "RULES", gone)
    with pytest.raises(AttributeError):
        masked_tables.masked_rules()
