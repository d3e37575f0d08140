"""A sweep by linearity: all epsilons of synthetic signals from two runs.

Rounds are linear in the noise, and the epsilons of a sweep share their draws (`ColumnLayout`). So
where the scales of the noise are proportional, b_eps = ratio b_1 for every agent and round,

    nu_eps = mu + ratio p,      p the response to the noise of epsilon = 1 alone,

and two groups of lanes serve any number of epsilons (`linear_kernel`). The scale is the larger of
network_i per_network and signal_i per_signal (`privacy.plan`). Both go with 1/eps, except for
smooth sensitivity as published, whose per_signal goes with 1/eps^2. There p has the network's part
alone, and an epsilon in which some agent's signal asks for more has columns of its own from that
round on, stream by stream: the numbers of a stream depend on no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._types import Floats
from veilsum.privacy import Plan
from veilsum.simulation import kernel, linear_kernel
from veilsum.simulation.backend import Backend
from veilsum.simulation.layout import LANES, ColumnLayout, aligned
from veilsum.simulation.linear_kernel import NEVER, Owned
from veilsum.simulation.problem import Problem
from veilsum.simulation.run import GroupScales, Run, Started, State
from veilsum.simulation.workers import Workers

LEAST = 3  # epsilons: with fewer, two runs save nothing or little
LONG = 200_000  # agents times rounds from which on fewer lanes are worth compiling for
UNIT = 1.0  # the epsilon of the perturbation


def proportions(problem: Problem, plan: Plan) -> tuple[Floats, bool] | None:
    """b_eps / b_1 of every epsilon, and whether a signal may end it; None if that serves nothing."""
    epsilons = np.array(problem.run_epsilons)
    return None if len(epsilons) < LEAST else plan.ratios(epsilons)


def run_of(backend: Backend, workers: Workers, plan: Plan | None) -> Run:
    """The run of a backend's problem: by linearity where that serves all epsilons.

    Columns of their own are not exchanged with other processes: where epsilons may need them and
    some rows are elsewhere, every epsilon has its run; so it has where a single stream fills vectors
    with rows (`slices`).
    """
    found = proportions(backend.problem, plan or backend.plan())
    sliced = backend.rows(1).matrix.sliced
    if found is None or sliced or (found[1] and not backend.has_all_rows):
        return Run(backend, workers, plan)
    return LinearRun(backend, workers, plan, *found)


@dataclass(eq=False)
class LinearRun(Run):
    """The state of one simulation whose epsilons are `ratios` times one perturbation.

    With `may_end`, a signal can make an epsilon's noise larger than that.
    """

    ratios: Floats = field(default_factory=lambda: np.empty(0))
    may_end: bool = False
    asked: ColumnLayout = field(init=False)  # with a group for every epsilon
    owned: list[State] = field(init=False)  # (epsilons, rows, streams) of each state
    since: NDArray[np.int64] = field(init=False)  # (epsilons, streams): see `linear_kernel`
    _each: GroupScales = field(init=False)  # of every epsilon

    def __post_init__(self) -> None:
        """Allocate the columns that epsilons may need: memory is taken when they are used."""
        super().__post_init__()
        self.since = np.full((len(self.ratios), self.layout.streams), NEVER)
        rows = len(self.rows.agents) if self.may_end else 0
        self.owned = [
            tuple(aligned(len(self.ratios), rows, state[0].shape[1] // 2) for _ in state)
            for state in self.states
        ]

    def _stored(self, layout: ColumnLayout) -> ColumnLayout:
        """The noiseless run and the perturbation; the last of several blocks has lanes as needed."""
        self.asked = layout
        pair = replace(layout, groups=2)
        long = self.rows.own * self.backend.problem.rounds >= LONG
        if layout.stacks < 2 or not long or not self._fits(pair):
            return pair
        left = layout.streams - (layout.stacks - 1) * layout.lanes
        return replace(pair, narrower=layout.lanes - next(w for w in LANES if w >= left))

    def _rounds_tiled(self) -> int:
        """One: the kernel of the pair takes rounds in turn."""
        return 1

    def _cuts(self) -> list[int]:
        """A block with fewer lanes is a state of its own."""
        cuts, stacks = super()._cuts(), self.layout.stacks
        return sorted({*cuts, stacks - 1}) if self.layout.narrower else cuts

    def _over(self) -> Floats | None:
        """What the network asks for, where signals may ask for more."""
        return np.asarray(self.plan.network) if self.may_end else None

    def _lanes(self, last: int) -> int:
        """Lanes of a state that ends before stack `last`."""
        return self.layout.lanes - (self.layout.narrower if last == self.layout.stacks else 0)

    def _state_width(self, first: int, last: int) -> int:
        """Columns of the state of stacks first..last-1."""
        return 2 * self._lanes(last) * (last - first)

    def _epsilons(self) -> tuple[float, ...]:
        """Those of the problem, and that of the perturbation."""
        return (*super()._epsilons(), UNIT)

    def _group_scales(self, first: int, scales: GroupScales) -> GroupScales:
        """Those of the perturbation; find the epsilons that stop to be proportional."""
        E = len(self.ratios)
        per_network, per_signal, per_edge = (np.ascontiguousarray(s[..., : E + 1]) for s in scales)
        self._each = per_network, per_signal, per_edge
        per_network, per_signal, per_edge = (s[..., [0, E + 1]].copy() for s in scales)
        if self.may_end:
            self._end_proportions(first)
            per_signal[:] = 0.0
            for k, state in enumerate(self.states):
                linear_kernel.begin_owned(
                    len(self._like(k)), _kernel_state(state), self._owned(k), self._stream(k), first
                )
        return per_network, per_signal, per_edge

    def _end_proportions(self, first: int) -> None:
        """Set `since` to the first round in which a signal asks for more noise than the network."""
        per_network, per_signal, _ = self._each
        if self.since.max() < NEVER or not per_signal.any():
            return
        largest = self.inputs.largest
        for k in range(len(per_network)):
            level = largest[min(k, len(largest) - 1)]
            ends = level * per_signal[k, 1:, None] > per_network[k, 1:, None]
            self.since[ends & (self.since == NEVER)] = first + k

    def _like(self, k: int) -> tuple[float, ...]:
        """What tells the kernel the number of lanes of state k."""
        return (0.0,) * self._lanes(self.cuts[k + 1])

    def _stream(self, k: int) -> int:
        """The first stream of state k."""
        return self.cuts[k] * self.layout.lanes

    def _owned(self, k: int) -> Owned:
        return Owned(*_kernel_state(self.owned[k]), self.since, self.ratios)

    def _sums_width(self, k: int) -> int:
        """A column of sums for every run that is asked for."""
        return int(self.states[k][0].shape[1]) // 2 * self.asked.groups

    def _advance_state(
        self, k: int, state: kernel.KernelState, inputs: kernel.Inputs, scales: kernel.Scales,
        rows: kernel.RowRange, squares: Floats, steps: kernel.Steps | None,
    ) -> None:  # fmt: skip
        """Call the kernel of the pair, which takes rounds in turn."""
        assert steps is None
        linear_kernel.advance(
            self._like(k), self.rows.matrix, state, self._owned(k), inputs, scales, self._each,
            rows, squares,
        )  # fmt: skip

    def _finish(self, started: Started) -> Floats:
        """The columns that epsilons have of their own change places as the others do."""
        sums = super()._finish(started)
        for _ in range(len(sums)):
            self.owned = [(*state[1:], state[0]) for state in self.owned]
        return sums

    @cached_property
    def sums_columns(self) -> NDArray[Any]:
        """Noiseless runs, then epsilon by stream, in the sums of all states side by side."""
        layout, groups, at, places = self.layout, self.asked.groups, 0, []
        for k in range(len(self.states)):
            width, lanes = self._sums_width(k), len(self._like(k))
            stack, lane = np.divmod(np.arange(width // groups), lanes)
            places.append(at + stack * groups * lanes + lane + np.arange(groups)[:, None] * lanes)
            at += width
        by_group = np.concatenate(places, axis=1)[:, : layout.streams]
        return np.concatenate([by_group[0, : layout.noiseless], by_group[1:].ravel()])

    def _columns(self, rows: NDArray[Any] | slice | None) -> Floats:
        """mu, then mu + ratio p of every epsilon, or the column of its own."""
        layout, numbers = self.layout, np.arange(self.rows.own, dtype=np.uint32)
        at = numbers if rows is None else numbers[rows]
        out = np.empty((len(at), layout.noiseless + layout.private))
        for k, state in enumerate(self.states):
            linear_kernel.expand(
                len(self._like(k)), state[0], self._owned(k), self._stream(k), at,
                layout.noiseless, out,
            )  # fmt: skip
        return out


def _kernel_state(state: State) -> kernel.KernelState:
    """The present, the buffer of the next and the past, which is the present without momentum."""
    return kernel.KernelState(*(*state, state[0])[:3])
