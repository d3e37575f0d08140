"""Compiled draws have the bits of NumPy's generator."""

from typing import Any

import numpy as np
import pytest

from veilsum.families import LogNormal, Normal, Poisson
from veilsum.simulation import SyntheticSignals, sources
from veilsum.simulation.normals import FEW, Normals


def generators(seed: int) -> tuple[Any, Any]:
    made = np.random.SeedSequence([seed, 7])
    return Normals(made), np.random.Generator(np.random.SFC64(made))


@pytest.mark.parametrize("seed", range(5))
def test_every_bit_is_that_of_numpy(seed: int) -> None:
    """400,000 numbers of each, so that wedges (1% of draws) and the tail (0.03%) are there."""
    ours, numpys = generators(seed)
    for _ in range(4):
        assert np.array_equal(
            ours.normal(2.0, 3.7, (100, 1000)), numpys.normal(2.0, 3.7, (100, 1000))
        )
        assert np.array_equal(
            ours.lognormal(-2.0, 0.7, (100, 1000)), numpys.lognormal(-2.0, 0.7, (100, 1000))
        )
        assert np.array_equal(ours.random(5), numpys.random(5))  # the state goes on from there
        assert np.array_equal(ours.normal(size=FEW), numpys.normal(size=FEW))
    assert np.abs(ours.normal(size=200_000)).max() > 3.7  # beyond the last layer


def test_numpy_draws_where_the_loop_cannot(monkeypatch: Any) -> None:
    means = np.linspace(0.0, 1.0, 4 * FEW)
    for tables in (Normals.tables, None):  # as if numba had moved them
        monkeypatch.setattr(Normals, "tables", tables)
        ours, numpys = generators(3)
        assert np.array_equal(ours.normal(means, 1.0), numpys.normal(means, 1.0))
        assert np.array_equal(
            ours.lognormal(0.0, 1.0, 4 * FEW), numpys.lognormal(0.0, 1.0, 4 * FEW)
        )
        assert ours.normal() == numpys.normal()
        with pytest.raises(ValueError, match="scale < 0"):
            ours.normal(0.0, -1.0, 4 * FEW)


def test_the_tables_are_there_and_their_bits_matter(monkeypatch: Any) -> None:
    """Where they are gone, drawing takes three times as long: the module's docstring says why."""
    assert Normals.tables is not None
    whole, widths, *others = Normals.tables
    wrong = np.nextafter(widths, 1.0)
    monkeypatch.setattr(Normals, "tables", (whole, wrong, *others))
    ours, numpys = generators(1)
    assert not np.array_equal(ours.normal(size=4 * FEW), numpys.normal(size=4 * FEW))


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        (Normal(2.0), {"mu": 3.0}),
        (LogNormal(1.0), {"mu": 10.0}),
        (LogNormal(1.0, bounds=(1.0, 2.0)), {"mu": 0.5}),
        (Poisson(), {"rate": 4.0}),
    ],
    ids=["normal", "log-normal", "clipped", "other"],
)
def test_signals_are_the_same_with_and_without_a_compiler(
    family: Any, parameters: Any, monkeypatch: Any
) -> None:
    source = SyntheticSignals(family, parameters, 3 * sources.FEW, seed=5)
    compiled = source.signals(4, 2)
    monkeypatch.setattr(sources, "_compiles", lambda: False)
    assert np.array_equal(compiled, source.signals(4, 2))
