"""The computed tables of docs/masked-sum.md, and of the masked sum in docs/scaling.md."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from veilsum.agents.masked.rules import RULES

ROOT = Path(__file__).resolve().parent.parent
GRID = 4_941  # agents of the US power grid
LABEL = 8  # bytes of a label in the tables
LINK = 12.5e6  # bytes a second


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Lay out a Markdown table."""
    lines = [list(heads), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def masked_rules() -> str:
    """The rules, and where each is enforced; a function that is gone is an error."""
    rows = []
    for name, text, places in RULES:
        for place in places:
            module, attribute = place.split(":")
            found: Any = importlib.import_module(f"veilsum.{module}")
            for part in attribute.split("."):
                found = getattr(found, part)
        files = dict.fromkeys(place.split(":")[0] for place in places)
        where = "; ".join(
            f"`{file.replace('.', '/')}.py`: "
            + ", ".join(p.split(":")[1] for p in places if p.split(":")[0] == file)
            for file in files
        )
        rows.append([name, text, where])
    return table(["rule", "what it asks for", "enforced in"], rows)


def masked_wrong_c() -> str:
    """What epsilon becomes if only a fraction beta of the noise is unknown, by grid."""
    from veilsum.privacy import DiscreteLaplace

    fractions = (0.95, 0.9, 0.8, 0.6, 0.5, 0.3)

    def cost(epsilon: float, beta: float, steps: int) -> float:
        left = DiscreteLaplace(steps / Fraction(epsilon)).part(Fraction(beta))
        return left.epsilon(steps, float(steps))

    rows = [
        [f"{epsilon:g}", f"2^{bits}", *(f"{cost(epsilon, b, 2**bits):.3g}" for b in fractions)]
        for epsilon in (1.0, 0.1)
        for bits in (6, 12, 20, 24)
    ]
    return table(["epsilon", "Delta in steps", *(f"beta {b:g}" for b in fractions)], rows)


def masked_more_colluders() -> str:
    """What a session costs if more collude than are covered: one more, and twice as many."""
    from veilsum.privacy.masked import MaskedParameters

    rows = []
    for n, c, d in ((5, 1, 0), (10, 2, 1), (50, 10, 5), (969, 190, 96), (GRID, 988, 494)):
        terms = MaskedParameters(n, c, d, 1.0, 2**12)
        factor = terms.error_factor(n)
        costs = [f"{terms.epsilon_against(k):.3g}" for k in (c, c + 1, 2 * c)]
        rows.append(
            [
                f"{n:,}",
                str(c),
                str(d),
                f"{terms.honest:,}",
                f"{factor:.2f}",
                f"{n**0.5:.1f}",
                *costs,
            ]
        )
    errors, costs = ["error, masked", "error, local"], ["epsilon for c", "for c + 1", "for 2c"]
    return table(["n", "c", "d", "h", *errors, *costs], rows)


def masked_zero_noise() -> str:
    """How often a member's own noise is 0, and so what masks alone protect."""
    rows = []
    for n, c in ((50, 15), (969, 290), (GRID, 1_482), (GRID, 2_470)):
        order = Fraction(1, n - c)
        cells = [f"{100 * _no_jump(order, 2.0**bits):.1f}%" for bits in (12, 20, 24)]
        rows.append([f"{n:,}", f"{c:,}", *cells])
    return table(["n", "c + d", "t = 2^12", "t = 2^20", "t = 2^24"], rows)


def _no_jump(order: Fraction, scale: float) -> float:
    """P(no jump) = (1 - r)^(2a), r = e^(-1/t): jumps that cancel, of order a^2, are left out."""
    return float((-math.expm1(-1 / scale)) ** (2 * order))


def masked_integrity() -> str:
    """How far one member can move the mean unnoticed, against what an honest one can."""
    from veilsum.privacy.masked import MaskedParameters

    rows = []
    for n, c, d in ((50, 10, 5), (969, 190, 96), (GRID, 988, 494)):
        terms = MaskedParameters(n, c, d, 1.0, 2**12)
        bound = terms.largest_sum / terms.sensitivity_steps
        rows.append([f"{n:,}", f"{2 * bound / n:.3g}", f"{2 / n:.2g}", f"{bound:,.0f}"])
    heads = [
        "n",
        "masked: moves the mean by",
        "a reading within its bounds: by",
        "sums accepted up to",
    ]
    return table(heads, rows)


def masked_stream() -> str:
    """Exact errors against the truth of a stream: gossip and a masked sum per batch."""
    import veilsum as vs
    from veilsum.privacy import Batches, MaskedDP, SignalDP

    mixing, family = vs.networks.metropolis(vs.networks.load("grid:10x10")), vs.families.Normal(1.0)
    source = vs.simulation.SyntheticSignals(family, {"mu": 5.0}, mixing.size, seed=1)
    colluders, absent, sizes = 20, 10, (100, 500)
    rows = []
    for name, batches in (("every reading", None), ("batches of growth 2", Batches(2.0))):
        masked = MaskedDP(1.0, colluders=colluders, absent=absent, attempts=1, batches=batches)
        for algorithm, request in (
            ("learn", SignalDP(1.0, batches=batches)),
            ("masked-learn", masked),
        ):
            problem = vs.simulation.Problem(
                mixing, vs.algorithms.get(algorithm, mixing), family, source, request, sizes[-1]
            )
            found = vs.theory.expected(problem)
            errors = [f"{found.total[T, 0]:.3g}" for T in sizes]
            noise = [f"{found.privacy[T, 0]:.2g}" for T in sizes]
            rows.append([f"`{algorithm}`", name, *errors, *noise])
    heads = [f"error at T = {T:,}" for T in sizes] + [f"of it noise, {T:,}" for T in sizes]
    return table(["algorithm", "released", *heads], rows)


def masked_delta() -> str:
    """From how many components on a delta is accepted, if all of them may move."""
    import numpy as np

    from veilsum.algorithms import MaskedSum
    from veilsum.errors import PrivacyError
    from veilsum.families import MultivariateNormal
    from veilsum.privacy import MaskedDP, plan

    made, deltas = MaskedSum(members=64, hops=4), (1e-4, 1e-6, 1e-9)

    def accepted(components: int, epsilon: float, delta: float) -> bool:
        asked = MaskedDP(epsilon, delta, radius=math.inf, colluders=12, absent=6, attempts=1)
        family = MultivariateNormal((0.01 * np.eye(components)).tolist(), bounds=(0.0, 1.0))
        try:
            plan(asked, family, made)
        except PrivacyError as problem:
            if "buys nothing here" not in str(problem):
                raise
            return False
        return True

    rows = []
    for epsilon in (0.1, 1.0, 4.0):
        least = (next(k for k in range(1, 65) if accepted(k, epsilon, delta)) for delta in deltas)
        rows.append([f"{epsilon:g}", *map(str, least)])
    return table(["epsilon", *(f"delta = {delta:.0e}" for delta in deltas)], rows)


def record_bytes(label: int = LABEL, components: int = 1) -> dict[str, int]:
    """Bytes of each record of a member on a link, its length before it; from the encoder."""
    from veilsum.agents.masked.records import (
        Commit,
        Masked,
        Present,
        Ready,
        SignedRecord,
        encode_record,
    )

    name, hash_ = "a" * label, bytes(32)
    records = (
        Present(hash_, name, bytes(32)),
        Commit(hash_, name, hash_, hash_),
        Ready(hash_, name, hash_, hash_),
        Masked(hash_, name, hash_, hash_, hash_, (0,) * components),
    )
    return {
        type(one).__name__: 4 + len(encode_record(SignedRecord(one, bytes(64)))) for one in records
    }


def _overlay() -> dict[str, Any]:
    return dict(json.loads((ROOT / "benchmarks" / "overlay.json").read_text()))


def masked_scaling() -> str:
    """Bytes and processor time of a session: all pairs, and the sparse overlay."""
    report = _overlay()
    pair, signature = report["times"]["pair"], report["times"]["signature"]
    each = sum(record_bytes().values())
    rows = []
    for n in (969, GRID, 10**5, 10**6):
        k = next(
            (r["redrawn"] for r in report["needed"] if (r["members"], r["fraction"]) == (n, 0.3)), 0
        )
        seed = 4 + 101 + LABEL + 32  # a further record with what a member drew, as a seed
        sparse = [_seconds(2 * k * pair), _seconds(5 * n * signature), _bytes(n * (each + seed))]  # fmt: skip
        rows.append(
            [
                f"{n:,}", _bytes(n * each), _seconds(n * each / LINK),
                _seconds(n * pair), _seconds(4 * n * signature), *(sparse if k else ["-"] * 3),
            ]
        )  # fmt: skip
    heads = ["n", "bytes per link, one way", "over a link", "masks", "signatures"]
    heads += ["sparse: masks", "signatures", "bytes per link, one way"]
    about = (
        f"Measured: {1e6 * pair:.0f} µs for a pair's mask, {1e6 * signature:.0f} µs to verify a "
        f"signature, on one core; {each} bytes for the four records of a member (labels of {LABEL} bytes)."
    )
    return f"{about}\n\n{table(heads, rows)}"


def _seconds(time: float) -> str:
    return (
        f"{1e3 * time:.2g} ms"
        if time < 0.01
        else f"{time:.2g} s"
        if time < 10
        else f"{time:,.0f} s"
    )


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def overlay_needed() -> str:
    """Neighbours for 2^-60 a session, and for 2^-60 a query whose views colluders can end."""
    rows = [
        [
            f"{r['members']:,}", f"{r['fraction']:g}", str(r["neighbours"]), f"2^-{r['bits']:.1f}",
            str(r["redrawn"]),
        ]
        for r in _overlay()["needed"]
    ]  # fmt: skip
    return table(["n", "f", "k for a session", "bound", "k for a query"], rows)


def _count(expected: float) -> str:
    return f"{expected:,.0f}" if expected >= 1 else f"{expected:.0e}"


def overlay_isolated() -> str:
    """Isolated honest members at 10^5: simulated, and by the formula."""
    rows = [
        [
            f"{r['fraction']:g}", str(r["neighbours"]), f"{r['isolated']:,}", _count(r["expected"]),
            f"{r['small']:,}", f"{r['connected']} of {r['runs']}", str(r["pairs"]),
        ]
        for r in _overlay()["isolated"]
    ]  # fmt: skip
    heads = [
        "f",
        "k",
        "isolated",
        "expected",
        "outside the largest part",
        "connected",
        "most pairs",
    ]
    return table(heads, rows)


def masked_comparison() -> str:
    """Error, rounds and bytes of other ways to the same mean, by stated formulas."""
    from veilsum import algorithms, networks
    from veilsum.theory.planning import MESSAGE_BYTES

    graph = networks.load("us-power-grid")
    n, links, rounds = graph.size, len(graph.links), 300
    session = algorithms.MaskedSum.for_network(networks.metropolis(graph))
    c = round(0.3 * n)
    degree = 2 * links / n
    factor, local = math.sqrt(n / (n - c)), math.sqrt(n)
    sent = f"up to {_bytes(links / n * session.bytes_per_link())}"
    rows = [
        ["trusted server", "1", "1", "8 B"],
        ["local noise, gossip", f"{local:.1f}", str(rounds), _bytes(rounds * degree * MESSAGE_BYTES)],
        ["Muffliato", f"{math.sqrt(rounds * degree):.1f} on average over pairs, {local:.1f} for neighbours",
         str(rounds), _bytes(8 * rounds * degree)],
        ["GOPA", f"{factor:.2f}", "2", "8 B for each of some log n neighbours, and proofs"],
        ["secure aggregation 2017", f"{factor:.2f}", "4", _bytes(secure_aggregation_bytes(n))],
        ["secure aggregation 2020", f"{factor:.2f}", "4", _bytes(secure_aggregation_bytes(300))],
        ["masked sum", f"{factor:.2f}", f"5 floods, {session.session_rounds} hops", sent],
    ]  # fmt: skip
    return table(["", "error over a trusted server's", "rounds", "bytes sent by an agent"], rows)


def secure_aggregation_bytes(clients: int, components: int = 1, bits: float = 64) -> float:
    """(2u a + (5u - 4) a + m b)/8: u clients, keys and Shamir parts of a = 256 bits, m words."""
    return (2 * clients * 256 + (5 * clients - 4) * 256 + components * bits) / 8


PARTS: tuple[Callable[[], str], ...] = (
    masked_rules,
    masked_wrong_c,
    masked_more_colluders,
    masked_zero_noise,
    masked_integrity,
    masked_stream,
    masked_delta,
    masked_scaling,
    masked_comparison,
    overlay_needed,
    overlay_isolated,
)
