"""What is wrong at a site of a fleet, before it matters: each check is a line with a remedy.

A check reads; nothing is released. Two of them write to the store: an object of a name of its own, and, for
the probe of a witness, names that nobody uses; all of them are removed again.
"""

from __future__ import annotations

import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum._extras import available, install_command
from veilsum.errors import FleetError, StoreError, VeilsumError
from veilsum.fleet.attention import few, length

if TYPE_CHECKING:
    from veilsum.fleet.answers import Posted
    from veilsum.fleet.seat import Seat
    from veilsum.fleet.site import Site
    from veilsum.fleet.store import Store

SLOW = 5.0  # seconds for three calls to a store
NEXT = 24  # slots for which the budget is tried


@dataclass(frozen=True)
class FleetCheck:
    """One line."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


def check_site(
    folder: Path, now: int, opened: Callable[[Path], Site] | None = None
) -> list[FleetCheck]:
    """All checks of a site; those that cannot be made are left out after the reason why."""
    from veilsum.fleet.site import TOML, Site

    if not available("obstore"):
        remedy = install_command("fleet")
        return [FleetCheck("packages", False, "the extra fleet is not installed", remedy)]
    try:
        site = (opened or Site)(folder)
    except (VeilsumError, OSError) as error:
        return [*_files(folder), FleetCheck(str(folder / TOML), False, str(error), "mend it")]
    with site:
        found = [FleetCheck(TOML, True, f"reads; this is {site.config.name}"), *_files(folder)]
        found += _stopped(site)
        for seat in site.seats.values():
            found += _seat(site, seat, now)
        found += [*_data(site), *_budget(site)]
    return found


def _files(folder: Path) -> Iterator[FleetCheck]:
    """site.db and keys are the owner's alone."""
    for path in sorted([*folder.glob("*.db"), *folder.glob("*.key")]):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            yield FleetCheck(
                path.name, False, f"others may read it ({mode:o})", f"chmod 600 {path}"
            )
        else:
            yield FleetCheck(path.name, True, f"only its owner may read it ({mode:o})")


def _stopped(site: Site) -> Iterator[FleetCheck]:
    from veilsum.fleet.release import STOPPED

    reason = site.file.get(STOPPED)
    if reason is not None:
        yield FleetCheck(
            "this site", False, f"has stopped for good: {reason.decode()}",
            "end the other copy; join again in an empty folder, and be admitted with the new key",
        )  # fmt: skip


def _seat(site: Site, seat: Seat, now: int) -> Iterator[FleetCheck]:
    reachable = True
    for store in seat.stores:
        made = list(_store(store))
        reachable &= made[0].ok
        yield from made
    if not reachable:
        return
    yield from _as_others_see(site, seat, now)
    if seat.board.membership is not None:
        yield from _witness(seat)
        yield from _clock(seat, now)


def _store(store: Store) -> Iterator[FleetCheck]:
    """Whether it can be listed, written, overwritten, read and emptied, and in what time."""
    name = f"probe/{secrets.token_hex(16)}"
    begun = time.monotonic()
    try:
        store.names("post")
        ignored = store.ignored
        found = list(_written(store, name))
    except StoreError as error:
        said, _, remedy = str(error).rpartition("; ")
        yield FleetCheck(store.address, False, said, remedy)
        return
    finally:
        with suppress(StoreError):
            store.remove(name)
    seconds = time.monotonic() - begun
    yield FleetCheck(
        store.address, seconds <= SLOW,
        f"lists, takes and shows objects; {seconds:.1f} s for six calls",
        "" if seconds <= SLOW else "a step takes as long: look at the network and the server",
    )  # fmt: skip
    yield from found
    if ignored:
        said = f"{ignored} names there are of other programs, and are passed over"
        yield FleetCheck(store.address, True, said)


def _written(store: Store, name: str) -> Iterator[FleetCheck]:
    """An object that is written twice at once: both must be seen, as two."""
    versions = []
    for data in (b"veilsum fleet check 1", b"veilsum fleet check 2"):
        store.put(name, data)
        versions.append(store.names("probe").get(name))
        if store.get(name) != data or versions[-1] is None:
            yield FleetCheck(
                store.address, False, "does not show what was just written there",
                "a cache of a proxy or a mount holds objects back: switch it off for this address",
            )  # fmt: skip
            return
    if versions[0] == versions[1]:
        yield FleetCheck(
            store.address, False, "two contents of an object have one version there, so changes are missed",
            "let the server give ETags of contents, not of times in seconds",
        )  # fmt: skip


def _witness(seat: Seat) -> Iterator[FleetCheck]:
    """Whether the store can do what the membership relies on."""
    from veilsum.fleet.store import probe_witness

    store, membership = seat.stores[0], seat.membership
    what = f"{store.address} as a witness"
    if not membership.witnesses.store:
        wit = membership.witnesses
        yield FleetCheck(
            "witnesses", True, f"{wit.needed} of {len(wit.members)} members: {few(wit.members, 8)}"
        )
        return
    try:
        probe = probe_witness(store, one_file_system=True)
    except StoreError as error:
        yield FleetCheck(what, False, str(error), "try again")
        return
    said = probe.reason
    if store.may_be_a_copy and probe.able:
        said += "; it is a folder: all sites must mount one file system, and no program may copy it"
    yield FleetCheck(
        what, probe.able, said,
        "" if probe.able else "the authority must name members instead: veilsum fleet witnesses",
    )  # fmt: skip


def _as_others_see(site: Site, seat: Seat, now: int) -> Iterator[FleetCheck]:
    """Membership, forks, and what a look finds: the lines of the status."""
    from veilsum.fleet.status_of import look

    status = look(site, seat, now)
    if status.epoch and status.member:
        yield FleetCheck(
            seat.name, True,
            f"epoch {status.epoch}, this site is {status.member}, authority {status.authority[:16]}",
        )  # fmt: skip
    for one in status.attention:
        if one.kind not in ("budget", "stopped", "clock"):
            yield FleetCheck(one.who, one.kind not in WRONG, one.what, one.remedy)
    if not [one for one in status.attention if one.kind in ("forked", "two-epochs")]:
        yield FleetCheck("posts", True, "no fork, one membership of each number")


WRONG = (  # at this site, or for everyone; that others are silent is for the status
    "forked", "two-epochs", "withheld", "rolled-back", "dropped", "unreachable", "not-admitted",
    "unreadable", "at-odds", "failed", "removed", "closed",
)  # fmt: skip


def _clock(seat: Seat, now: int) -> Iterator[FleetCheck]:
    """Against the newest lists of others: nobody can have written in the future."""
    others = {key: seen for key, seen in seat.seen.items() if key != seat.public}
    if not others:
        return
    limit = seat.membership.clock
    ahead = {key: seen.at - now for key, seen in others.items() if seen.at - now > limit}
    known = seat.membership.keys
    names = sorted(known[key].name for key in ahead if key in known)
    if not ahead:
        yield FleetCheck("clock", True, f"no member is more than {limit} s ahead of it")
        return
    most = length(max(ahead.values()))
    own = 2 * len(ahead) > len(others)
    yield FleetCheck(
        "clock", False, f"{few(names)} {'are' if len(names) > 1 else 'is'} up to {most} ahead of it",
        "set this clock by NTP" if own else "ask them to set theirs by NTP",
    )  # fmt: skip


def _data(site: Site) -> Iterator[FleetCheck]:
    """Columns of the data against the questions that are open."""
    from veilsum.fleet.answers import questions_on
    from veilsum.fleet.step import closed

    if not site.config.data:
        yield FleetCheck("[data]", True, "none: this member asks, and is not asked")
        return
    try:
        columns = site.needed_data().columns()
    except (VeilsumError, OSError) as error:
        yield FleetCheck("[data]", False, str(error), "look at [data] of site.toml")
        return
    if columns is None:
        yield FleetCheck("[data]", True, "opens; its columns are known when it is read")
        return
    posted = [
        one
        for seat in site.seats.values()
        for one in questions_on(seat.board)
        if not closed(one, int(time.time())) and not _refused(site, seat, one)
    ]
    lacking = list(_lacking(posted, columns))
    yield FleetCheck("[data]", True, f"opens; columns {few(columns, 8)}")
    for title, names in lacking:
        yield FleetCheck(
            "[data]", False, f"has no column {few(names)}, which {title} asks for",
            "rename it in the data, or say no: veilsum fleet inbox",
        )  # fmt: skip


def _refused(site: Site, seat: Seat, posted: Posted) -> bool:
    """Whether this site said no."""
    from veilsum.fleet.step import NO

    said = site.file.decision(seat.fleet, posted.terms)
    return said is not None and said[0] == NO


def _lacking(posted: Sequence[Posted], columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    from veilsum.fleet.consent import columns_of

    for one in posted:
        with suppress(FleetError):
            names = [name for name in columns_of(one.question) if name not in columns]
            if names:
                yield one.question.title(), names


def _budget(site: Site) -> Iterator[FleetCheck]:
    """Enough for the next slots, and a ledger whose hashes follow each other."""
    from veilsum.fleet.outlook import outlook

    try:
        count = site.ledger.verify()
    except FleetError as error:
        yield FleetCheck("ledger", False, str(error), "re-key this site")
        return
    charges = f"{count:,} charge{'s' if count > 1 else ''}, each as it was written"
    said = charges if count else "no charge"
    if not site.config.data:
        yield FleetCheck("ledger", True, f"{said}: this member has no records to spend of")
        return
    yield FleetCheck("ledger", True, f"{said}; the limit is {site.config.budget}")
    sources = site.file.rows("select distinct source from charges order by source")
    for (source,) in sources:
        found = outlook(site, source, NEXT)
        if found.refused:
            yield FleetCheck(
                f"budget of {source}", False, f"ends after the next {found.slots} slots",
                "a larger [budget] in site.toml, if the site agrees",
            )  # fmt: skip
        elif found.slots:
            yield FleetCheck(
                f"budget of {source}", True, f"enough for the next {found.slots} slots"
            )
