"""Five questions, each with veilsum, OpenDP and diffprivlib: the code that docs/compared.md shows.

A table has the columns `kwh`, 0 to 40, and `region`, a to e. Everybody gets epsilon 1, one record replaced
by any other, a public number of records and the same bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

REGIONS = tuple("abcde")
BINS, EPSILON = 20, 1.0
SHARE = (
    0.65  # of epsilon for the sums, the rest for the counts: least error of a mean of 12 in 0 to 40
)


def households(rows: int = 969) -> dict[str, Any]:
    """Drawn numbers, the same for all."""
    rng = np.random.default_rng(27)
    return {
        "kwh": np.clip(np.round(rng.gamma(4.0, 3.0, rows), 3), 0.0, 40.0),
        "region": rng.choice(REGIONS, rows),
    }


def veilsum_count(rows: Any, kept: Any) -> Any:
    """The number of a filter's rows is private."""
    import veilsum as vs

    return vs.ask(rows, vs.questions.count(), epsilon=1, where={"region": ["a"]}, **kept).value


def veilsum_mean(rows: Any, kept: Any) -> Any:
    """The number of all rows is public."""
    import veilsum as vs

    return vs.ask(rows, vs.questions.mean("kwh", between=(0, 40)), epsilon=1, **kept).value


def veilsum_histogram(rows: Any, kept: Any) -> Any:
    """Shares."""
    import veilsum as vs

    histogram = vs.questions.histogram("kwh", between=(0, 40), bins=20)
    return vs.ask(rows, histogram, epsilon=1, **kept).value


def veilsum_median(rows: Any, kept: Any) -> Any:
    """The first of the quantiles asked for."""
    import veilsum as vs

    median = vs.questions.quantiles("kwh", between=(0, 40), at=[0.5])
    return vs.ask(rows, median, epsilon=1, **kept).value


def veilsum_groups(rows: Any, kept: Any) -> Any:
    """One release of all groups."""
    import veilsum as vs

    mean = vs.questions.mean("kwh", between=(0, 40))
    return vs.ask(rows, mean, epsilon=1, by=("region", REGIONS), **kept).value


def opendp_count(region: Any) -> Any:
    """d_in = 2: replacing is removing and adding."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = dp.vector_domain(dp.atom_domain(T=bool), size=len(region)), dp.symmetric_distance()
    total = rows >> dp.t.then_cast_default(int) >> dp.t.then_clamp((0, 1)) >> dp.t.then_sum()
    count = dp.binary_search_chain(lambda s: total >> dp.m.then_laplace(s), d_in=2, d_out=1.0)
    return count((region == "a").tolist())


def opendp_mean(kwh: Any) -> Any:
    """The size is known, so that it is not paid for."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(kwh)),
        dp.symmetric_distance(),
    )
    total = rows >> dp.t.then_clamp((0.0, 40.0)) >> dp.t.then_mean()
    mean = dp.binary_search_chain(lambda s: total >> dp.m.then_laplace(s), d_in=2, d_out=1.0)
    return mean(kwh.tolist())


def opendp_histogram(kwh: Any) -> Any:
    """Public edges."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(kwh)),
        dp.symmetric_distance(),
    )
    edges = np.linspace(0, 40, BINS + 1)[1:-1].tolist()
    bins = rows >> dp.t.then_find_bin(edges)
    counts = bins >> dp.t.then_count_by_categories(list(range(BINS)), null_category=False)
    noised = dp.binary_search_chain(lambda s: counts >> dp.m.then_laplace(s), d_in=2, d_out=1.0)
    return np.array(noised(kwh.tolist())) / len(kwh)


def opendp_median(kwh: Any) -> Any:
    """The exponential mechanism over 1,025 public candidates."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(kwh)),
        dp.symmetric_distance(),
    )
    at, measure = np.linspace(0, 40, 1025).tolist(), dp.max_divergence()
    median = dp.binary_search_chain(
        lambda s: rows >> dp.m.then_private_quantile(measure, at, 0.5, s), d_in=2, d_out=1.0
    )
    return median(kwh.tolist())


def opendp_groups(kwh: Any, region: Any) -> Any:
    """Counts from the records; sums from numpy, with a sensitivity that we derive."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = dp.vector_domain(dp.atom_domain(T=str), size=len(kwh)), dp.symmetric_distance()
    counts = rows >> dp.t.then_count_by_categories(list(REGIONS), null_category=False)
    number = dp.binary_search_chain(
        lambda s: counts >> dp.m.then_laplace(s), d_in=2, d_out=1 - SHARE
    )
    sums = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    total = dp.binary_search_chain(lambda s: sums >> dp.m.then_laplace(s), d_in=40.0, d_out=SHARE)
    centred = [float((kwh[region == g] - 20).sum()) for g in REGIONS]
    return 20 + np.array(total(centred)) / np.maximum(number(region.tolist()), 1)


def diffprivlib_count(region: Any) -> Any:
    """A count moves by 1."""
    from diffprivlib import tools

    return tools.count_nonzero(region == "a", epsilon=1.0)


def diffprivlib_mean(kwh: Any) -> Any:
    """Its mean takes n as public."""
    from diffprivlib import tools

    return tools.mean(kwh, epsilon=1.0, bounds=(0, 40))


def diffprivlib_histogram(kwh: Any) -> Any:
    """Its histogram counts a record as added: replacing one costs twice as much."""
    from diffprivlib import tools

    counts, _ = tools.histogram(kwh, epsilon=1.0 / 2, bins=BINS, range=(0, 40))
    return counts / len(kwh)


def diffprivlib_median(kwh: Any) -> Any:
    """The exponential mechanism between neighbouring values."""
    from diffprivlib import tools

    return tools.quantile(kwh, 0.5, epsilon=1.0, bounds=(0, 40))


def diffprivlib_groups(kwh: Any, region: Any) -> Any:
    """A record leaves one group and joins another: sums move by 20 twice, counts by 1 twice."""
    from diffprivlib import tools

    sums = [
        tools.sum(np.where(region == g, kwh - 20, 0), epsilon=SHARE, bounds=(-20, 20))
        for g in REGIONS
    ]
    counts = [tools.count_nonzero(region == g, epsilon=(1 - SHARE) / 2) for g in REGIONS]
    return 20 + np.array(sums) / np.maximum(counts, 1)
