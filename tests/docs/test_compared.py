"""The page of comparisons: its code runs, its numbers are those of the formulas, its prose is short."""

import math
import re
from typing import Any

import numpy as np
import pytest

from docs import compared_code, compared_tables
from tests.docs.pages import ROOT, prose

EXAMPLES = [(x, q) for x in compared_tables.LIBRARIES for q in compared_tables.QUESTIONS]
PAGE = ROOT / "docs" / "compared.md"
CLOSE = 0.25  # of errors that were measured once and are kept: 4 of their deviations


@pytest.mark.parametrize(("library", "question"), EXAMPLES)
def test_what_the_page_shows_runs(library: str, question: str) -> None:
    """One release of each; where it is far off, the code asks something else than the others.

    Noise exceeds 60 times its rms with a probability below 1e-30.
    """
    pytest.importorskip(library)
    rows = compared_code.households()
    found = compared_tables.answers(library, question, 1, rows)
    _, _, error = compared_tables.QUESTIONS[question]
    assert np.isfinite(found).all()
    assert error(found, rows) < 60 * max(compared_tables.kept()["errors"][question].values())


def test_every_error_is_kept_and_those_with_a_formula_agree_with_it() -> None:
    """Kept numbers: this is no draw."""
    kept = compared_tables.kept()
    errors: dict[str, Any] = kept["errors"]
    assert kept["replicas"] == 400
    assert set(errors) == set(compared_tables.QUESTIONS)
    r, n, width = math.exp(-compared_code.EPSILON), len(compared_code.households()["kwh"]), 40
    formulas = {"count": math.sqrt(2 * r) / (1 - r), "mean": math.sqrt(2) * width / n}
    for question, found in errors.items():
        assert set(found) == set(compared_tables.LIBRARIES)
        for library, error in found.items():
            assert error > 0
            if question in formulas:
                assert error == pytest.approx(formulas[question], rel=CLOSE), library


def test_a_rival_with_our_encoding_has_our_error() -> None:
    """What the page says of means by group: sums of (s, 1 - s) under noise for an l1 distance of 2."""
    rows = compared_code.households()
    s = rows["kwh"] / 40
    sums = [
        (s[rows["region"] == g].sum(), (1 - s)[rows["region"] == g].sum())
        for g in compared_code.REGIONS
    ]
    noise = np.random.default_rng(1).laplace(0.0, 2 / compared_code.EPSILON, (2000, 5, 2))
    noised = np.array(sums) + noise
    found = 40 * noised[..., 0] / noised.sum(axis=-1)
    error = compared_tables.groups_error(found, rows)
    kept = compared_tables.kept()["errors"]["groups"]
    assert error == pytest.approx(kept["veilsum"], rel=CLOSE)


def test_the_formulas_of_means_by_group() -> None:
    """As the page has them, for groups of n/5 with a mean of 12.25 kWh."""
    share, m, size = compared_code.SHARE, 12.25, 969 / 5
    ours = 40 * math.sqrt(8) * math.hypot(m / 40, 1 - m / 40) / size
    theirs = math.sqrt(2) * math.hypot(40 / share, (20 - m) * 2 / (1 - share)) / size
    assert f"by formula {ours:.2f} against {theirs:.2f}" in PAGE.read_text()


def test_the_code_on_the_page_is_code() -> None:
    for library, question in EXAMPLES:
        body = compared_tables.body(f"{library}_{question}")
        compile(body, "page", "exec")
        assert "import" not in body
        assert "return" not in body


def test_the_page_is_short_besides_code_and_tables() -> None:
    text = re.sub(r"^\|.*$|<!--.*?-->", "", prose(PAGE), flags=re.MULTILINE)
    assert len(text.split()) <= 900
