"""The sheet of a plan: a row for each way to reach an error, the one to use first.

No signal is read: the numbers are expected errors, and the status is that of the guarantee that a way
would have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from veilsum.front.sheet import Answer, Answers
from veilsum.front.table import Row, rows_of
from veilsum.front.words import budget, listed, promises, small
from veilsum.results.describe import versions
from veilsum.results.units import behind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from veilsum.front.plot import Picture
    from veilsum.theory import Candidate, Proposal

NOT_REACHED = "not reached"
NORMS = {"agent": "rms of one agent", "l2": "l2 norm over all agents"}
LEGEND = (
    "error: {}; sampling: of the mean of all signals (counted for streams); privacy: of the noise; "
    "disagreement: between agents; bytes: that an agent sends."
)
NOTHING = 1e-6  # of an error: a part that is smaller is rounding
PARTS = (0.25, 0.5, 1.0, 2.0)  # of the planned rounds that have a curve
SAME = 1e-3  # curves that differ by less lie on each other
CAPTION = "Error of {} over {}: what more would buy, and less would cost."


def of_plan(
    plan: Proposal, name: str = "plan", title: str = "Plan", text: str = "", kept: str = ""
) -> Answers:
    """The sheet of a plan.

    Parameters
    ----------
    plan
        Of `theory.plan`.
    name, title
        Of the sheet.
    text
        The study that it is a plan for.
    kept
        What the variant to paste needs besides, as the end of a sentence.

    Returns
    -------
    Answers
        The error of each candidate, with what it needs.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:15"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 15, seed=1)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, vs.privacy.SignalDP(1.0), rounds=50
    ... )
    >>> of_plan(vs.theory.plan(problem, error=0.5)).promises[0]
    'Use chebyshev on best-constant weights: epsilon = 0.7303 and 50 rounds give an error of 0.5.'
    """
    return Answers(
        name=name,
        title=title,
        about=_about(plan),
        rows=tuple(answer for answer, _ in _rows(plan)),
        promises=tuple(_promised(plan)),
        warnings=(*_warnings(plan), *(_pasted(plan, kept))),
        legend=(LEGEND.format(NORMS[plan.norm]),),
        notes=tuple(_notes(plan)),
        paste=plan.toml() if plan.best.reached else "",
        text=text,
        origin=versions(),
        curves=lambda: list(_curves(plan)),
        pictures=lambda: _pictures(plan),
        drawing=lambda ax: _drawn(plan, ax),
    )


def _pasted(plan: Proposal, kept: str) -> list[str]:
    return [f"For the end of the study{kept}:"] if plan.best.reached else []


def _about(plan: Proposal) -> str:
    best = plan.best
    sought = {
        "epsilon": "the least epsilon",
        "rounds": "the fewest rounds"
        + ("" if best.epsilon is None else f" at epsilon {budget(best.epsilon)}"),
    }
    network = plan.problem.network
    graph = getattr(network.graph, "name", "") or "a network"
    where = f"{graph} ({network.size:,} agents)"
    if plan.target is None:
        return f"{where}: the error to expect"
    return f"{where}: {sought[plan.solved]} for an error of {behind(f'{plan.target:g}', plan.unit)}"


def _rows(plan: Proposal) -> list[tuple[Answer, Candidate]]:
    """Groups in the order of their best candidates, so that the one to use is the first row."""
    private = any(c.epsilon is not None for c in plan.candidates)
    trusts = len({c.trust for c in plan.candidates}) > 1
    names = _names(plan.candidates)
    rows = [
        Answer(
            name=name,
            quantity="error",
            value=c.error,
            unit=plan.unit,
            method=c.algorithm,
            rounds=str(c.rounds),
            status=c.guarantee,
            kind=", ".join([_trust(c)] * trusts + [NOT_REACHED] * (not c.reached)),
            guarantee=c.promise,
            epsilon=c.epsilon,
            cells=_cells(c, private),
        )
        for name, c in zip(names, plan.candidates, strict=True)
    ]
    order = list(dict.fromkeys((row.status, row.kind) for row in rows))
    pairs = zip(rows, plan.candidates, strict=True)
    return sorted(pairs, key=lambda pair: order.index((pair[0].status, pair[0].kind)))


def _cells(candidate: Candidate, private: bool) -> dict[str, str]:
    needs = {"rounds": f"{candidate.rounds:,}"}
    if private:
        known = candidate.epsilon
        needs = {"epsilon": "-" if known is None else budget(known)} | needs
    least = NOTHING * candidate.error
    parts = {
        name: small(value) if value > least else "0"
        for name, value in candidate.split._asdict().items()
    }
    sent = {"bytes": f"{candidate.bytes:,}", "weights": candidate.weights}
    return needs | parts | sent


def _names(candidates: Sequence[Candidate]) -> list[str]:
    """The algorithm, and the weights where an algorithm is there on several."""
    algorithms = [c.algorithm for c in candidates]
    if len(set(algorithms)) == len(algorithms):
        return algorithms
    return [f"{c.algorithm} on {c.weights.partition(',')[0]}" for c in candidates]


def _trust(candidate: Candidate) -> str:
    """The first clause of what the guarantee rests on."""
    said = candidate.trust.partition(":")[0].partition(", and that")[0]
    start, _, rest = said.partition("that ")
    return f"trust {said}" if start else f"if {rest}"


def _promised(plan: Proposal) -> Iterator[str]:
    """What to use, what is guaranteed then, how precise it is, and what each way rests on."""
    yield _use(plan)
    if plan.best.reached and plan.best.promise is not None:
        if plan.problem.source.measured and plan.problem.replicas > 1:
            yield f"Of one run of {plan.problem.replicas}, each of which is a release:"
        yield from promises({plan.best.algorithm: plan.best.promise}, plan.unit)
    if plan.precision is not None:
        known = plan.precision
        width = behind(f"{known.half_width:.2g}", plan.unit)
        yield (
            f"The 95% interval of an estimate is about {width} on either side, within "
            f"[{known.low:g}, {known.high:g}]."
        )
    if plan.offer is not None:
        yield f"{plan.offered()}."


def _use(plan: Proposal) -> str:
    best = plan.best
    error = behind(f"{best.error:.4g}", plan.unit)
    way = f"{best.algorithm} on {best.weights} weights"
    spent = f"{best.rounds:,} rounds"
    if best.epsilon is not None:
        spent = f"epsilon = {best.epsilon:g} and {spent}"
    if not best.reached:
        return f"Not reached: the least error, with {way}, is {error}. Reason: {best.reason}."
    about = "about " if best.estimated else ""
    start = f"Use {way}" if best.guarantee != "refuted" else f"Least error, refuted promise: {way}"
    return f"{start}: {spent} give an error of {about}{error}."


def _warnings(plan: Proposal) -> Iterator[str]:
    if plan.warning:
        yield f"Warning: {plan.warning}."
    reasons: dict[str, list[str]] = {}
    for left in plan.left_out:
        reasons.setdefault(left.reason, []).append(f"{left.algorithm} on {left.weights}")
    for reason, names in reasons.items():
        yield f"Left out, because agents cannot run it: {listed(names)}: {reason}."


def _notes(plan: Proposal) -> Iterator[str]:
    """What guarantees rest on, each once with its algorithms; how long a sum takes."""
    trusts: dict[str, list[str]] = {}
    for candidate in plan.candidates:
        trusts.setdefault(candidate.trust, []).append(candidate.algorithm)
    for trust, names in trusts.items():
        yield f"{listed(list(dict.fromkeys(names)))}: trust {trust}."
    flooding = max((c.flooding for c in plan.candidates), default=0)
    if flooding:
        yield (
            f"A round of {listed(_flooded(plan))} is a reading; its sum takes {flooding} rounds of flooding, "
            "before the next one."
        )
    yield from dict.fromkeys(f"{c.algorithm}: {c.reason}." for c in plan.candidates if c.reason)
    yield "No signal is read and nothing is spent: errors are expectations."


def _flooded(plan: Proposal) -> list[str]:
    return list(dict.fromkeys(c.algorithm for c in plan.candidates if c.flooding))


def _curves(plan: Proposal) -> Iterator[Row]:
    """The parts of every error, then the best candidate's error at other epsilons and rounds."""
    pairs = _rows(plan)
    for answer, candidate in pairs:
        (row,) = rows_of(answer)
        for quantity, value in candidate.split._asdict().items():
            yield row._replace(quantity=quantity, value=value)
        yield row._replace(quantity="bytes", value=float(candidate.bytes), unit="")
    (best,) = rows_of(pairs[0][0])
    noisy = len(plan.epsilons) > 1
    for k in rounds_drawn(plan) if noisy else range(len(plan.rounds)):
        for epsilon, value in zip(plan.epsilons, plan.surface[k], strict=True):
            yield best._replace(
                epsilon=float(epsilon) if noisy else None, value=float(value),
                rounds=str(plan.rounds[k]),
            )  # fmt: skip


def rounds_drawn(plan: Proposal) -> list[int]:
    """Rows of the plan's surface that have a curve: its rounds, and parts of them that differ.

    A sum over a roster has no estimate before its floods end, and changes no more after it.
    """
    session = plan.problem.algorithm.session
    first = 1 if session is None else session.arrival
    own = int(np.abs(plan.rounds - plan.best.rounds).argmin())
    rows = {int(np.abs(plan.rounds - plan.best.rounds * part).argmin()) for part in PARTS}
    return sorted(
        k for k in rows
        if k == own
        or (plan.rounds[k] >= first and not np.allclose(plan.surface[k], plan.surface[own], SAME))
    )  # fmt: skip


def _pictures(plan: Proposal) -> list[Picture]:
    from veilsum.front.plot import picture

    over = "epsilon, for several numbers of rounds" if len(plan.epsilons) > 1 else "rounds"
    return [picture(_drawn(plan, None), "tradeoff", CAPTION.format(_names([plan.best])[0], over))]


def _drawn(plan: Proposal, ax: Axes | None) -> Axes:
    from veilsum.front.pictures import tradeoff

    return tradeoff(plan, ax)
