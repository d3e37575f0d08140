"""The figure and the tables of docs/masked-sum.md: what they show is computed, and adds up."""

import math
import re
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from docs import masked_figure, masked_tables
from veilsum.families import Normal
from veilsum.privacy import DiscreteLaplace, MaskedDP, MaskedParameters, plan


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
    from veilsum.privacy.laws import GeneralizedDiscreteLaplace

    order, draws = Fraction(1, 35), 20_000
    noise = GeneralizedDiscreteLaplace(order, Fraction(2**12))
    zero = float((noise.sample(draws, np.random.default_rng(4)) == 0).mean())
    claimed = masked_tables._no_jump(order, 2.0**12)
    assert abs(zero - claimed) < 6 * math.sqrt(claimed * (1 - claimed) / draws) + 2e-3


def test_the_comparison_has_the_bytes_of_make_run() -> None:
    """It counted one crossing of a link: half as many."""
    from docs.generate import kilobytes, main_answers

    sent = kilobytes(main_answers().results["masked"].problem)
    found = re.search(r"hops \| up to ([\d.]+) MB", masked_tables.masked_comparison())
    assert found
    assert float(found[1]) == pytest.approx(float(sent[:-3].replace(",", "")) / 1e3, abs=0.005)


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


def page(name: str) -> str:
    text = (Path(masked_figure.__file__).parent / name).read_text(encoding="utf-8")
    return " ".join(text.split())


def test_numbers_in_sentences_are_those_of_the_code() -> None:
    """Numbers outside of tables; those of the tutorial are in `test_masked_deploy`."""
    asked = MaskedDP(1.0, radius=10.0, colluders=1)
    four = plan(asked, Normal(10.0, bounds=(0.0, 100.0)), members=4).mechanism()
    width = four.half_width(4, 4, 0.95)
    local = 10.0 * stats.laplace.rvs(size=(40_000, 4), random_state=1).mean(axis=1)
    beside = np.quantile(np.abs(local), 0.95)
    said = f"it is ±{width / 10:.2f} (95%), with local noise ±{beside / 10:.1f}"
    assert said in page("use-masked-sum.md")
    grid = MaskedParameters(masked_tables.GRID, 988, 494, 1.0, 2**12)
    moved = 2 * grid.largest_sum / grid.sensitivity_steps / grid.n
    model = page("threat-model.md")
    assert f"[by {moved:.3g}](masked-sum.md#integrity) at n = {grid.n:,} with epsilon = 1" in model
    assert f"a reading within its bounds moves it by {2 / grid.n:.1g}" in model
    assert f"[{grid.epsilon_against(2 * 988):.1f} epsilon for twice as many]" in model
    left = DiscreteLaplace(Fraction(2**12)).part(Fraction(0.9))
    one, many = (left.epsilon(2**12, 2.0**12, size) for size in (1, 1000))
    assert f"{one:.2f} for one component and {many:.1f} for 1,000" in page("masked-sum.md")
