"""`fleet step` and `fleet run`: a step with what is worth saying, and steps until somebody ends them.

    exit code  0   done, or nothing to do
               1   a person has to do something: the lines say what
               3   this site has stopped for good
               75  not now (a store does not answer, another step is running): the next step tries again

A line is said when it is new, and once a day while it stays true, so that cron mails what matters. A store
that does not answer is worth a line after an hour. What a step could not do is kept in site.db until a step
can: `status` and `check` say it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom

from veilsum.errors import StoppedError, StoreError, VeilsumError
from veilsum.fleet.database import SiteBusyError
from veilsum.fleet.seat import Seat
from veilsum.fleet.site import Site
from veilsum.fleet.step import SeatReport, step

DONE, PERSON, STOPPED, LATER = 0, 1, 3, 75
AGAIN = 86_400  # seconds after which a line that stays true is said again
PATIENCE = 3600  # seconds for which a store may be silent
KEPT = 30 * 86_400
SOONEST = 1.0  # seconds between two steps where something happens
SAID = "said"  # in site.db: when each line was
FAILED = "failed"  # in site.db: what the last step could not do
LEFT = "opened "  # what was drawn before, and said then
_RANDOM = SystemRandom()


@dataclass
class StepOutcome:
    """What a step did, for people and for cron."""

    code: int = DONE  # as the module says
    lines: list[str] = field(default_factory=list)
    moved: bool = False  # more may be due soon


def one_step(folder: Path, now: int, opening: Callable[[Path], Site] = Site) -> StepOutcome:
    """Open a site, take a step, say what is new."""
    try:
        with opening(folder) as site:
            return _stepped(site, now)
    except SiteBusyError:
        return StepOutcome(LATER)
    except StoppedError as error:
        return StepOutcome(STOPPED, [str(error)])
    except StoreError as error:
        return StepOutcome(LATER, [str(error)])
    except VeilsumError as error:
        return StepOutcome(PERSON, [str(error)])


def _stepped(site: Site, now: int) -> StepOutcome:
    found = StepOutcome()
    try:
        reports = step(site, now)
    except StoppedError as error:
        found = StepOutcome(STOPPED, [str(error)])
    else:
        several = len(reports) > 1
        for report, seat in zip(reports, site.seats.values(), strict=True):
            report.waiting += _out(seat)
            _add(found, report, f"{report.fleet}: " if several else "", site, now)
        _keep(site, reports)
    if site.config.log is not None and found.lines:
        write_log(site.config.log, found.lines, now)
    return found


def _add(found: StepOutcome, report: SeatReport, start: str, site: Site, now: int) -> None:
    """What one fleet adds."""
    failed = [text for text in report.problems if text in report.traffic.failed]
    others = _others(report)
    found.moved |= bool(report.done)
    found.lines += [
        start + text for text in dict.fromkeys(report.done) if not text.startswith(LEFT)
    ]
    waiting = [] if failed else report.waiting  # what did not arrive may be why
    fresh = _fresh(site, [*waiting, *others], now, 0)
    slow = _fresh(site, failed, now, PATIENCE)
    found.lines += [start + text for text in (*fresh, *slow)]
    if others:
        found.code = PERSON
    elif failed and found.code == DONE:
        found.code = LATER


def _out(seat: Seat) -> list[str]:
    """What a member without a role should know."""
    membership = seat.board.membership
    own = None if membership is None else membership.present(seat.public)
    if membership is None or own is None or own.roles:
        return []
    if any(one.roles for one in membership.members):
        return [f"{seat.name} removed this site: it is asked nothing, and posts nothing"]
    return [f"{seat.name} is closed: nobody asks, nobody releases; end this timer or cron"]


def _keep(site: Site, reports: Sequence[SeatReport]) -> None:
    """What could not be done, stores apart, for `failed_at`."""
    known = {}
    for one in reports:
        shown = {*one.traffic.rolled_back, *one.traffic.withheld}  # a look finds these itself
        if lines := [text for text in dict.fromkeys(_others(one)) if text not in shown]:
            known[one.fleet] = lines
    data = json.dumps(known).encode()
    if data != (site.file.get(FAILED) or b"{}"):
        with site.file.transaction():
            site.file.set(FAILED, data)


def _others(report: SeatReport) -> list[str]:
    return [text for text in report.problems if text not in report.traffic.failed]


def failed_at(site: Site, fleet: str) -> list[str]:
    """What the last step of a site could not do in a fleet, stores apart."""
    known: dict[str, list[str]] = json.loads(site.file.get(FAILED) or b"{}")
    return known.get(fleet, [])


def _fresh(site: Site, texts: Sequence[str], now: int, patience: int) -> list[str]:
    """Those that were not said for a day, and are true for so long."""
    known: dict[str, list[int]] = json.loads(site.file.get(SAID) or b"{}")
    found = []
    for text in dict.fromkeys(texts):
        mark = hashlib.sha256(text.encode()).hexdigest()[:16]
        since, at, last = known.get(mark, [now, 0, now])
        if now - last > AGAIN:
            since, at = now, 0
        if now - since >= patience and now - at >= AGAIN:
            found.append(text)
            at = now
        known[mark] = [since, at, now]
    kept = {mark: times for mark, times in known.items() if now - times[2] < KEPT}
    if texts:
        with site.file.transaction():
            site.file.set(SAID, json.dumps(kept).encode())
    return found


def write_log(path: Path, lines: Sequence[str], now: int) -> None:
    """Add lines with their time."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with suppress(OSError), path.open("a", encoding="utf-8") as file:
        file.writelines(f"{at} {line}\n" for line in lines)


def run(
    folder: Path, *, every: float, say: Callable[[str], None], clock: Callable[[], float],
    wait: Callable[[float], bool], opening: Callable[[Path], Site] = Site,
) -> int:  # fmt: skip
    """Step until `wait` says that it is over, sooner while something happens; the last exit code."""
    pause, failures, last = SOONEST, 0, ""
    while True:
        found = one_step(folder, int(clock()), opening)
        for line in found.lines:
            if line != last or found.code == DONE:
                say(line)
            last = line
        if found.code == STOPPED:
            return STOPPED
        failures = failures + 1 if found.code == LATER else 0
        pause = SOONEST if found.moved else min(every, 2 * pause)
        longer = min(every * 2 ** min(failures, 6), max(every, PATIENCE)) if failures > 1 else pause
        if wait(longer * _RANDOM.uniform(0.8, 1.2)):
            return found.code
