"""Opening a ledger: create it or check all of it, decide whether its state is usable, mark it open.

Whether the saved state can be continued is decided in the same transaction that marks the ledger as
open, so no crash can come between the two.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from veilsum import _validate
from veilsum.agents.ledger import records
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.ledger.clock import ClockAnchor, LedgerClock, SystemClock
from veilsum.agents.ledger.contents import SECRET_BYTES, LedgerContents
from veilsum.agents.ledger.lock import Lock
from veilsum.agents.ledger.periods import ROLLING
from veilsum.agents.ledger.records import (
    DEVICE_KEY,
    LEDGER_SECRET,
    LedgerIdentity,
    OriginHasher,
)
from veilsum.agents.ledger.store import Store, has_log, log_path
from veilsum.agents.ledger.verification import ChainScan, check_store
from veilsum.agents.manifest import Manifest
from veilsum.errors import LedgerError
from veilsum.privacy.accounting import Budget

FULL, PROCESS = "full", "process"
DURABILITIES = (FULL, PROCESS)
UNITS = (records.STREAM, records.WINDOW, records.EVENT)
FIELD_NAMES = {
    "agent": "agent",
    "terms": "terms of release",
    "unit": "unit of the budget",
    "window": "window",
    "epsilon": "budget epsilon",
    "delta": "budget delta",
    "per": "period of the budget",
    "refill": "refill of the budget",
    "zone": "time zone of the budget",
}
NEVER_CHANGE = ("agent", "terms")
MOST_SHOWN = 80  # characters of a value in an error


class Opening(NamedTuple):
    """How a ledger is to be opened: the arguments of `Ledger.open`."""

    path: Path
    identity: LedgerIdentity
    manifest: Manifest
    key: bytes | None
    durability: str
    device: bytes | None
    clock: SystemClock


def check_arguments(path: Any, manifest: Any, agent: Any, budget: Any, **others: Any) -> None:
    """Raise if an argument of `Ledger.open` has another type, or means nothing."""
    kinds: dict[str, tuple[Any, Any, str]] = {
        "path": (path, str | Path, "the path of a file"),
        "manifest": (manifest, Manifest, "a Manifest"),
        "budget": (budget, Budget | None, "a Budget, such as Budget(1.0), or None"),
        "key": (others["key"], bytes | None, "bytes, as of key_of"),
        "device": (others["device"], bytes | None, "bytes, as of Credentials.secret"),
    }
    for name, (value, kind, expected) in kinds.items():
        if (
            not isinstance(value, kind)
            or value in (b"", "")
            or (value is path and "\0" in str(path))
        ):
            raise LedgerError(f"{name} must be {expected}; found {_validate.found(value)}")
    if agent not in manifest.labels:
        raise LedgerError(
            f"{manifest.name} has no member {_validate.found(agent)}; a ledger is for a label of "
            f"the manifest, such as {manifest.labels[0]!r}"
        )
    _validate.one_of(LedgerError, UNITS, unit=others["unit"])
    _validate.one_of(LedgerError, DURABILITIES, durability=others["durability"])
    if others["per"] is None and (others["refill"], others["zone"]) != (ROLLING, "UTC"):
        raise LedgerError(
            "refill and zone are for a budget per period, and there is no `per`; give per, such as "
            '"day", or leave them out'
        )


class OpenedStore(NamedTuple):
    """A ledger that was checked and marked as open."""

    store: Store
    meta: dict[str, str]
    tracker: BudgetTracker
    clock: LedgerClock
    last_number: int
    open_query: int
    begins_epoch: bool = True


def write_meta(
    store: Store, meta: dict[str, str], key: bytes | None, **changed: str | int | float
) -> None:
    """Change metadata and seal all of it again; `meta` is what the store has."""
    meta.update({name: str(value) for name, value in changed.items()})
    meta["seal"] = records.seal(key, meta)
    store.put_meta(**{name: meta[name] for name in (*changed, "seal")})


def open_store(
    opening: Opening,
    lock: Lock,
    migrate: Callable[[Store], object] = lambda _: None,
    probe: Callable[[str], None] = lambda _: None,
) -> OpenedStore:
    """Open or create the file, check it, and mark it as in use; `migrate` comes first.

    Its log is emptied only after that: a migration or a check that fails or is killed leaves the log, by
    which the next start knows that the mixing state is the last one.
    """
    path = opening.path
    had_log = has_log(path)
    recorded = 0 if lock.earlier is None else lock.earlier.releases
    if recorded and not (path.exists() and path.stat().st_size):
        raise LedgerError(
            f"ledger {path} is missing or empty, and its lock file records {recorded} releases; "
            "nothing was released; restore the latest copy of the ledger"
        )
    store = Store(path)
    try:
        migrate(store)
    except BaseException:
        store.close_with_log(path)
        raise
    try:
        store.checkpoint()
        if not had_log:
            store.empty_log()  # of what a migration wrote
        if store.empty and not recorded:
            made = _create(store, opening)
        else:
            made = _resume(store, opening, lock, had_log, probe)
        store.checkpoint()  # the database is marked as in use; the log is not empty until `close`
        return made
    except BaseException:
        store.close()
        raise


def _create(store: Store, opening: Opening) -> OpenedStore:
    identity, device, key = opening.identity, opening.device, opening.key
    # With this secret an agent recognises what it sent, even after an older copy was restored;
    # derived from the device's key, even after the ledger was lost.
    secret = (
        secrets.token_bytes(SECRET_BYTES)
        if device is None
        else records.derive(device, "proofs of messages", identity.agent)
    )
    clock = LedgerClock(opening.clock)
    meta: dict[str, str] = {}
    store.begin()
    store.create()
    write_meta(
        store,
        meta,
        key,
        format=records.FORMAT,
        first_format=records.FORMAT,
        **identity._asdict(),
        **_manifest_meta(opening.manifest),
        **_usage_meta(opening, clock),
        secret=secret.hex(),
        origin_key=LEDGER_SECRET if device is None else DEVICE_KEY,
        origin_key_fingerprint=OriginHasher(device or secret, identity.agent).fingerprint,
        naming="",
        sealed=int(key is not None),
        incarnation=1,
        starts=1,
        count=0,
        passed=0,
        passed_count=0,
        passed_head="",
        spool="",
        state=0,
        peers=0,
        queries=0,
        queries_head="",
        sessions=0,
        sessions_head="",
        steps=0,
        copy="",
        restored=0,
        head=records.genesis_hash(identity),
    )
    store.commit()
    return OpenedStore(store, meta, _tracker(store, identity), clock, 0, 0)


def _tracker(store: Store, identity: LedgerIdentity) -> BudgetTracker:
    return BudgetTracker(identity, store.charges_between)


def _resume(
    store: Store, opening: Opening, lock: Lock, had_log: bool, probe: Callable[[str], None]
) -> OpenedStore:
    path, key = opening.path, opening.key
    header, chain = verified(store, path, lock, key)
    check_original(path, header)
    check_identity(path, header, opening.identity)
    _check_later(path, header, opening.manifest)
    check_key(path, header, key)
    if not _is_whole(header, had_log) and lock.earlier is None:
        raise LedgerError(
            f"ledger {path} was not closed, and its write-ahead log {log_path(path).name} is "
            "missing: releases may be missing too; nothing was released; restore the log, or the "
            "lock file if there is one"
        )
    if int(header.meta["format"]) != records.FORMAT:
        raise LedgerError(
            f"ledger {path} must be migrated before it is opened; nothing was released"
        )
    meta = store.meta()
    clock = LedgerClock(opening.clock, anchor_of(meta), max(chain.time, float(meta["time"])))
    renewed = _starts_incarnation(store, header, opening, had_log)
    more = {"state": 0} if renewed else {}
    if had_log:  # a crash may have come before a withdrawal had emptied it
        store.begin()
        write_meta(store, meta, key, closed=records.LOG_EMPTIED)
        store.commit()
        store.empty_log()
    probe("opened with an empty log")
    store.begin()
    if renewed:
        store.drop_state()
    write_meta(
        store,
        meta,
        key,
        **_manifest_meta(opening.manifest),
        **_usage_meta(opening, clock),
        incarnation=header.incarnation + renewed,
        starts=int(meta["starts"]) + 1,
        **more,
    )
    store.commit()
    begins = header.manifest != opening.manifest.digest.hex()
    numbers = chain.last_number, chain.open_query
    return OpenedStore(store, meta, chain.tracker, clock, *numbers, begins)


def verified(
    store: Store, path: Path, lock: Lock, key: bytes | None
) -> tuple[LedgerContents, ChainScan]:
    """The contents of the ledger, provided that it passes its verification."""
    try:
        found, header, chain = check_store(store, key, lock.earlier)
    except (ValueError, KeyError, TypeError) as problem:
        raise LedgerError(
            f"ledger {path} does not have the contents of a ledger ({type(problem).__name__}); "
            "nothing was released; check the path, or restore the latest copy"
        ) from problem
    if not found.ok:
        raise LedgerError(
            f"ledger {path} cannot be trusted: {'; '.join(found.problems)}; nothing was "
            "released; restore the latest copy, or use a new ledger under a new name, because "
            "neighbours remember this one"
        )
    return header, chain


def check_key(path: Path, header: LedgerContents, key: bytes | None) -> None:
    """Raise for a ledger with a seal that cannot be checked, and so not be written again."""
    if header.sealed and key is None:
        raise LedgerError(
            f"ledger {path} is sealed with a key; nothing was released; give the key that it was "
            "made with"
        )


def check_original(path: Path, header: LedgerContents) -> None:
    """Raise for a backup, which is never opened itself."""
    if header.meta["copy"]:
        raise LedgerError(
            f"ledger {path} is a backup made at {header.meta['copy']}: readings may have been "
            "released since, and would be released again; nothing was released; "
            "`veilsum ledger restore` makes a ledger of it that asks the neighbours first"
        )


def check_identity(path: Path, header: LedgerContents, expected: LedgerIdentity) -> None:
    """Raise if a ledger is for another agent, other terms or another budget."""
    stored = header.identity
    for name, was, now in zip(LedgerIdentity._fields, stored, expected, strict=True):
        if was != now and not (name == "terms" and records.same_terms(str(was), str(now))):
            what, old, new = FIELD_NAMES[name], _shown(was), _shown(now)
            if name == "terms":
                what, old, new = _first_difference(str(was), str(now))
            remedy = _remedy(path, header, name, allows_more(stored, expected))
            raise LedgerError(
                f"ledger {path} was made for {what} {old}, and this agent has {new}; nothing was "
                f"released; {remedy}"
            )


def _check_later(path: Path, header: LedgerContents, manifest: Manifest) -> None:
    """Raise for an epoch before the one in which the ledger was last used."""
    if header.epoch > manifest.epoch and header.name == manifest.name:
        raise LedgerError(
            f"ledger {path} was used in epoch {header.epoch}, and this is epoch {manifest.epoch}: an "
            "older membership is not returned to; nothing was released; use the scenario of the "
            f"present epoch, or roll out the older membership as epoch {header.epoch + 1}"
        )


def _first_difference(was: str, now: str) -> tuple[str, str, str]:
    """What the first term that differs is called in the manifest, and both of its values."""
    old, new = json.loads(was), json.loads(now)
    name = next(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))
    before, after = (_shown(json.dumps(each.get(name))) for each in (old, new))
    return f"the term {name} =", before, after


def _remedy(path: Path, header: LedgerContents, name: str, raised: bool) -> str:
    if name not in NEVER_CHANGE:
        how = " --raise" if raised else ""
        return (
            f"restore the former [budget], or record the change with `veilsum ledger amend agent.toml"
            f"{how}`, which keeps what was spent"
        )
    if name == "terms" and not int(header.meta["count"]):
        return (
            "restore the scenario that it was made for; or, since nothing of it was ever released, "
            f"move {path.name} away with the files beside it ({path.name}.*), and a new one is made"
        )
    return "use the ledger that belongs to it, or a new file"


def allows_more(old: LedgerIdentity, new: LedgerIdentity) -> bool:
    """Whether a budget is other than a smaller amount for the same unit and period."""
    same = old._replace(epsilon=0.0, delta=0.0) == new._replace(epsilon=0.0, delta=0.0)
    return not same or new.epsilon > old.epsilon or new.delta > old.delta


def _shown(value: object) -> str:
    text = str(value) if value != "" else "none"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _is_whole(header: LedgerContents, had_log: bool) -> bool:
    """Whether nothing is missing that was in a log: it is there, or was moved into the database."""
    return header.closed or had_log or header.meta["closed"] == records.LOG_EMPTIED


def _starts_incarnation(
    store: Store, header: LedgerContents, opening: Opening, had_log: bool
) -> bool:
    """Whether the epoch is new, no state was to be saved, or the saved one may be old.

    It may be old after a power failure if saving did not wait for the disk, or without the log.
    """
    if header.manifest != opening.manifest.digest.hex() or not _is_whole(header, had_log):
        return True
    state = store.state()
    if state is not None and not state[0]:
        return True
    waited = header.closed or header.meta["durability"] == FULL
    boot = opening.clock.boot()
    return not (waited or (bool(boot) and header.meta["boot"] == boot))


def _manifest_meta(manifest: Manifest) -> dict[str, Any]:
    return {"manifest": manifest.digest.hex(), "name": manifest.name, "epoch": manifest.epoch}


def _usage_meta(opening: Opening, clock: LedgerClock) -> dict[str, Any]:
    return {
        "durability": opening.durability,
        "boot": clock.anchor.boot,  # that of now, also where the anchor is an earlier one of this boot
        "closed": 0,
        "time": clock.now(),
        "anchor_boot": clock.anchor.boot,
        "anchor_elapsed": clock.anchor.elapsed,
        "anchor_time": clock.anchor.time,
    }


def anchor_of(meta: dict[str, str]) -> ClockAnchor:
    """The anchor of the ledger's time."""
    return ClockAnchor(
        meta["anchor_boot"], float(meta["anchor_elapsed"]), float(meta["anchor_time"])
    )


def origin_hasher(path: Path, meta: dict[str, str], device: bytes | None) -> OriginHasher:
    """The hasher with the key that the ledger was created with."""
    secret = bytes.fromhex(meta["secret"]) if meta["origin_key"] == LEDGER_SECRET else device
    found = None if secret is None else OriginHasher(secret, meta["agent"])
    if found is not None and found.fingerprint == meta["origin_key_fingerprint"]:
        return found
    raise LedgerError(
        f"ledger {path} identifies its readings with the secret of its site, and "
        f"{'none was given' if secret is None else 'this is another one'}: released rows could "
        "not be recognised; nothing was released; restore NAME.secret, or the first private key of "
        "the site where there is none (`veilsum keys request --new-key` replaces a key and keeps "
        "the secret)"
    )
