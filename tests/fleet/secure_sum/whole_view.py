"""What an adversary of a secure sum can compute, by linear algebra over a small field.

Everything that it sees is a linear combination of the honest values and of uniform coins. Whatever of it
depends on the values is a combination in which all coins cancel: `View.leaks` finds all of them, by
elimination. Nothing here is of the shipped code.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Form = dict[Any, int]  # a linear combination: variable -> coefficient


def add(*forms: tuple[int, Form]) -> Form:
    out: Form = {}
    for factor, form in forms:
        for variable, coefficient in form.items():
            out[variable] = out.get(variable, 0) + factor * coefficient
    return out


@dataclass(frozen=True)
class Setting:
    """p, honest sites, how many of them a roster may miss, k, colluders (points), t, pack, columns."""

    p: int
    honest: int
    absent: int
    keepers: int
    colluders: tuple[int, ...]
    t: int
    pack: int = 1
    columns: int = 1

    @property
    def s(self) -> int:
        return self.t - len(self.colluders)

    @property
    def answering(self) -> list[int]:
        return [j for j in range(1, self.keepers + 1) if j not in self.colluders]


@dataclass
class View:
    """The adversary's whole view. Posts are any labels; columns 0 .. M-1 hold values, column M is g."""

    at: Setting
    seen: list[Form] = field(default_factory=list)

    def pad(self, post: Any, column: int, j: int) -> Form:
        return {("coin", post, column, j): 1}

    def share(self, post: Any, column: int, j: int) -> Form:
        """f(j) of the polynomial through the secrets at 0, -1, .. and the pads at 1 .. t-1."""
        p, kind = self.at.p, "coin" if column == self.at.columns else "value"
        given: list[tuple[int, Form]] = [
            (-m % p, {(kind, post, column, -m): 1}) for m in range(self.at.pack)
        ]
        given += [(i, self.pad(post, column, i)) for i in range(1, self.at.t)]
        terms = []
        for x, form in given:
            weight = 1
            for y, _ in given:
                if y != x:
                    weight = weight * (j - y) * pow(x - y, -1, p) % p
            terms.append((weight, form))
        return add(*terms)

    def post(self, post: Any) -> None:
        """A deal on the board: every cell, and the pads of the colluders."""
        for column in range(self.at.columns + 1):
            for j in range(self.at.t, self.at.keepers + 1):
                cell = (1, self.share(post, column, j)), (-1, self.pad(post, column, j))
                self.seen.append(add(*cell))
            self.seen += [self.pad(post, column, j) for j in self.at.colluders]

    def answer(self, j: int, roster: Iterable[Any], with_g: bool = False) -> None:
        for column in range(self.at.columns + with_g):
            self.seen.append(add(*((1, self.share(post, column, j)) for post in roster)))

    def word(self, j: int, post: Any, r: int) -> None:
        """g(j) + sum_m r^m f_m(j)."""
        terms = [(1, self.share(post, self.at.columns, j))]
        terms += [(pow(r, m + 1), self.share(post, m, j)) for m in range(self.at.columns)]
        self.seen.append(add(*terms))

    def leaks(self) -> list[Form]:
        """A basis of what depends on values alone."""
        variables = sorted({v for form in self.seen for v in form}, key=repr)
        coins = [v for v in variables if v[0] == "coin"]
        values = [v for v in variables if v[0] == "value"]
        place = {v: i for i, v in enumerate([*coins, *values])}
        table = np.zeros((len(self.seen), len(place)), np.int64)
        for row, form in enumerate(self.seen):
            for variable, coefficient in form.items():
                table[row, place[variable]] = coefficient % self.at.p
        rank = eliminate(table, len(coins), self.at.p)
        rest = table[rank:, len(coins) :]
        rest = rest[: eliminate(rest, rest.shape[1], self.at.p)]
        return [{v: int(a) for v, a in zip(values, row, strict=True) if a} for row in rest]


def eliminate(table: Any, columns: int, p: int) -> int:
    """Row reduction in place over the first columns; the rank."""
    rank = 0
    for column in range(columns):
        candidates = np.flatnonzero(table[rank:, column])
        if candidates.size == 0:
            continue
        pivot = rank + int(candidates[0])
        table[[rank, pivot]] = table[[pivot, rank]]
        table[rank] = table[rank] * pow(int(table[rank, column]), -1, p) % p
        others = np.flatnonzero(table[:, column])
        others = others[others != rank]
        table[others] = (table[others] - np.outer(table[others, column], table[rank])) % p
        rank += 1
        if rank == len(table):
            break
    return rank


def opened(leaks: Sequence[Form]) -> set[frozenset[Any]] | None:
    """The sets over which plain sums leak: {} or {G}; None if anything else does.

    A leak must have one coefficient over one set of posts for each coordinate.
    """
    sets = set()
    for form in leaks:
        by_coordinate: dict[Any, dict[Any, int]] = {}
        for (_, post, column, secret), a in form.items():
            by_coordinate.setdefault((column, secret), {})[post] = a
        for weights in by_coordinate.values():
            if len(set(weights.values())) > 1:
                return None
            sets.add(frozenset(weights))
    return sets


def holds(at: Setting, answers: dict[int, frozenset[Any]], leaks: Sequence[Form]) -> bool:
    """The lemma: what leaks is a sum over one G, answered by at least s keepers."""
    sets = opened(leaks)
    if sets is None or len(sets) > 1:
        return False
    return all(sum(roster == g for roster in answers.values()) >= at.s for g in sets)
