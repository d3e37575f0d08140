"""Masks along a sparse random graph: how many neighbours keep the honest members connected.

    python -m benchmarks.overlay         writes benchmarks/overlay.json; half a minute

Model. After the roster F is fixed, each of its N members draws k others, uniformly and from its own
coins, and pads its value with masks for the pairs that it drew or that drew it. C = f N members
collude, chosen before the draw. A masked sum needs the graph of the H = N - C honest members to be
connected. If it is not, a set S of s <= H/2 of them has no pair with the other honest ones: all that
its members drew is in S or colludes, and no other honest member drew one of S. Draws without
replacement avoid a set less often than draws with replacement would, so that, summed over all S,

    P(not connected) <= sum_{s=1}^{H/2} binom(H, s) ((C+s-1)/(N-1))^(k s) (1 - s/(N-1))^(k (H-s)),

of which s = 1, a member whose pairs are all with colluders, is nearly all:

    H (f e^-(1-f))^k.

Agents mask every pair of a roster: they do not need this below some 10^5 members.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln, logsumexp

from benchmarks.clock import best

HERE = Path(__file__).parent
BITS = 60
SIZES = (10**5, 10**6)
FRACTIONS = (0.1, 0.3, 0.5)
MEMBERS = 10**5  # of the simulation
FEW = {
    0.1: (1, 2, 3),
    0.3: (2, 3, 4, 5),
    0.5: (3, 4, 6, 8),
}  # neighbours at which some are isolated
REPLICAS = 10
SEED = 13

Numbers = NDArray[np.int64]


def log2_disconnected(members: int, colluders: int, neighbours: int) -> float:
    """The bound above, as a power of two."""
    honest = members - colluders
    s = np.arange(1.0, honest // 2 + 1)
    sets = gammaln(honest + 1) - gammaln(s + 1) - gammaln(honest - s + 1)
    with np.errstate(divide="ignore"):
        inside = np.log((colluders + s - 1) / (members - 1))
    outside = np.log1p(-s / (members - 1))
    return float(logsumexp(sets + neighbours * (s * inside + (honest - s) * outside)) / np.log(2))


def neighbours_for(members: int, fraction: float, bits: float = BITS) -> int:
    """The least k with P(not connected) <= 2^-bits by the bound."""
    colluders = round(fraction * members)
    honest = members - colluders
    one = np.log2(fraction) - (1 - fraction) / np.log(2)  # log2 of f e^-(1-f)
    k = max(1, int((bits + np.log2(honest)) / -one) - 3)  # the bound falls by that much for each
    if k > 1 and log2_disconnected(members, colluders, k - 1) <= -bits:
        raise ArithmeticError(f"the search for k began too late, at {k}")
    while log2_disconnected(members, colluders, k) > -bits:
        k += 1
    return k


def redrawn_bits(members: int, attempts: int = 2, bits: float = BITS) -> float:
    """Bits a session for 2^-bits a query: colluders that dislike a draw can end its view.

    Every member proposes twice an attempt (`MaskedTerms.most_views`), and every view is a new draw.
    """
    return float(bits + np.log2(2 * members * attempts))


def expected_isolated(members: int, colluders: int, neighbours: int) -> float:
    """Honest members without an honest neighbour, on average: exact."""
    honest = members - colluders
    j = np.arange(neighbours)
    own = np.prod(np.maximum(colluders - j, 0) / (members - 1 - j))
    return float(honest * own * (1 - neighbours / (members - 1)) ** (honest - 1))


def draw(
    members: int, honest: int, neighbours: int, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Who drew whom, of the honest members 0 .. H-1: k different others each."""
    chosen = np.sort(rng.integers(members - 1, size=(honest, neighbours)), axis=1)
    while len(again := np.flatnonzero((np.diff(chosen, axis=1) == 0).any(axis=1))):
        chosen[again] = np.sort(rng.integers(members - 1, size=(len(again), neighbours)), axis=1)
    own = np.arange(honest)[:, None]
    chosen += chosen >= own  # nobody draws itself
    return np.repeat(own, neighbours), chosen.ravel()


def simulate(
    members: int, colluders: int, neighbours: int, rng: np.random.Generator
) -> dict[str, int]:
    """Components of the honest members' graph, how many are alone, and the most pairs of a member."""
    honest = members - colluders
    source, target = draw(members, honest, neighbours, rng)
    degree = neighbours + np.bincount(target, minlength=members)[:honest]
    inside = target < honest
    links = source[inside], target[inside]
    ones = np.ones(len(links[0]), dtype=np.int8)
    graph = coo_array((ones, links), shape=(honest, honest))
    count, label = connected_components(graph, directed=False)
    sizes = np.bincount(label)
    return {
        "components": int(count),
        "isolated": int((sizes == 1).sum()),
        "small": int((sizes[sizes < honest / 2]).sum()),
        "pairs": int(degree.max()),
    }


def needed() -> list[dict[str, Any]]:
    """k for 2^-60 a session and a query, at each size and fraction."""
    rows = []
    for members in SIZES:
        for fraction in FRACTIONS:
            k = neighbours_for(members, fraction)
            rows.append(
                {
                    "members": members, "fraction": fraction, "neighbours": k,
                    "bits": -log2_disconnected(members, round(fraction * members), k),
                    "redrawn": neighbours_for(members, fraction, redrawn_bits(members)),
                }
            )  # fmt: skip
    return rows


def isolated() -> list[dict[str, Any]]:
    """Isolated honest members at few neighbours, measured and expected; beyond, whether connected."""
    rng = np.random.default_rng(SEED)
    rows = []
    for fraction, few in FEW.items():
        colluders = round(fraction * MEMBERS)
        for k in (*few, neighbours_for(MEMBERS, fraction)):
            runs = [simulate(MEMBERS, colluders, k, rng) for _ in range(REPLICAS)]
            rows.append(
                {
                    "fraction": fraction, "neighbours": k, "runs": REPLICAS,
                    "isolated": sum(run["isolated"] for run in runs),
                    "small": sum(run["small"] for run in runs),
                    "expected": REPLICAS * expected_isolated(MEMBERS, colluders, k),
                    "connected": sum(run["components"] == 1 for run in runs),
                    "pairs": max(run["pairs"] for run in runs),
                }
            )  # fmt: skip
    return rows


def times(pairs: int = 200) -> dict[str, float]:
    """Seconds of one pair's mask, and of one signature's verification."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from veilsum.agents.masked.masks import EphemeralKey, Participant, pad

    mine = EphemeralKey()
    roster = {f"member-{i:07}": Participant(EphemeralKey().public, 1) for i in range(pairs)}
    roster["me"] = Participant(mine.public, 1)
    signing = Ed25519PrivateKey.generate()
    text = bytes(200)
    signature, public = signing.sign(text), signing.public_key()

    def verify() -> None:
        for _ in range(pairs):
            public.verify(signature, text)

    masked = best(lambda: pad(mine, "me", roster, bytes(32), bytes(32), 1), 30)
    return {"pair": masked / pairs, "signature": best(verify, 30) / pairs}


def main() -> None:
    report = {
        "cores": os.cpu_count(), "members": MEMBERS, "needed": needed(), "isolated": isolated(),
        "times": times(),
    }  # fmt: skip
    (HERE / "overlay.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
