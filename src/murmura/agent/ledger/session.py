"""From a file to a ledger that may be used: checked, matched, and marked as in use.

The decision whether the saved state can be gone on from is made here, in the same transaction that
marks the ledger as open: no crash can come between the two.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from murmura.agent.ledger import chain
from murmura.agent.ledger.check import SECRET, Contents, inspect
from murmura.agent.ledger.lock import Lock
from murmura.agent.ledger.origins import DEVICE, OWN, Origins, derive
from murmura.agent.ledger.records import Identity, Spent
from murmura.agent.ledger.store import Store, has_log, log_of
from murmura.agent.manifest import Manifest
from murmura.errors import LedgerError

FULL, PROCESS = "full", "process"
DURABILITIES = (FULL, PROCESS)
BOOT = Path("/proc/sys/kernel/random/boot_id")
WORDS = {
    "agent": "agent",
    "terms": "terms of release (their sha256)",
    "unit": "unit of the budget",
    "window": "window",
    "epsilon": "budget epsilon",
    "delta": "budget delta",
}


def boot_id() -> str:
    """Names the time since the machine was last started; empty where there is no telling."""
    with suppress(OSError):
        return BOOT.read_text().strip()
    return ""


def begin(
    path: Path,
    lock: Lock,
    identity: Identity,
    manifest: Manifest,
    key: bytes | None,
    durability: str,
    device: bytes | None,
) -> Store:
    """Open or make the file, check it, and mark it as in use."""
    had_log = has_log(path)
    _check_there(path, lock)
    store = Store(path)
    try:
        store.settle()
        if store.empty and not _releases(lock):
            _create(store, identity, manifest, key, durability, device)
        else:
            _resume(store, path, lock, identity, manifest, key, durability, had_log)
        store.settle()  # in use, says the database now; and the log is never empty until `finish`
        return store
    except BaseException:
        store.close()
        raise


def finish(store: Store) -> None:
    """Mark it as closed in good order, on the disk."""
    store.durable(True)
    store.put(clean=1)


def _releases(lock: Lock) -> int:
    return 0 if lock.before is None else lock.before.releases


def _check_there(path: Path, lock: Lock) -> None:
    if _releases(lock) and not (path.exists() and path.stat().st_size):
        raise LedgerError(
            f"ledger {path} is gone or empty, and its lock file remembers {_releases(lock)} "
            "releases; nothing was released; restore the latest copy of the ledger"
        )


def _create(
    store: Store,
    identity: Identity,
    manifest: Manifest,
    key: bytes | None,
    durability: str,
    device: bytes | None,
) -> None:
    head, secret = chain.genesis(identity), _secret(device, identity.agent)
    source = OWN if device is None else DEVICE
    store.begin()
    store.create()
    store.put(
        format=chain.FORMAT,
        **identity._asdict(),
        **_terms(manifest),
        **_use(durability),
        secret=secret.hex(),
        bound=source,
        bound_check=Origins(device or secret, identity.agent).check,
        life=1,
        starts=1,
        count=0,
        head=head,
        spent_epsilon=0.0,
        spent_delta=0.0,
        seal=chain.seal(key, identity, 0, head, Spent(0.0, 0.0), 1),
    )
    store.commit()


def _resume(
    store: Store,
    path: Path,
    lock: Lock,
    identity: Identity,
    manifest: Manifest,
    key: bytes | None,
    durability: str,
    had_log: bool,
) -> None:
    found, held = inspect_or_refuse(store, path, lock, key)
    _match(path, held.identity, identity)
    if held.sealed and key is None:
        raise LedgerError(
            f"ledger {path} is sealed with a key; nothing was released; give the key that it was "
            "made with"
        )
    if not (held.clean or had_log) and lock.before is None:
        raise LedgerError(
            f"ledger {path} was not closed, and its write-ahead log {log_of(path).name} is not "
            "there: releases may be missing; nothing was released; bring the log along, or the "
            "lock file if there is one"
        )
    renewed = _begins_anew(store, held, manifest, had_log)
    life = held.life + renewed
    spent = Spent(float(held.facts["spent_epsilon"]), float(held.facts["spent_delta"]))
    seal = chain.seal(key, identity, len(held.entries), found, spent, life)
    store.begin()
    if renewed:
        store.drop_state()
    starts = int(held.facts["starts"]) + 1
    store.put(**_terms(manifest), **_use(durability), life=life, starts=starts, seal=seal)
    store.commit()


def inspect_or_refuse(
    store: Store, path: Path, lock: Lock, key: bytes | None
) -> tuple[str, Contents]:
    """The head of the chain and all that the ledger says, provided that it is sound."""
    try:
        report, held = inspect(store, key, lock.before)
    except (ValueError, KeyError, TypeError) as problem:
        raise LedgerError(
            f"ledger {path} does not say what a ledger says ({type(problem).__name__}); nothing "
            "was released; check the path, or restore the latest copy"
        ) from problem
    if not report.ok:
        raise LedgerError(
            f"ledger {path} cannot be trusted: {'; '.join(report.problems)}; nothing was "
            "released; restore the latest copy, or begin a new ledger under a new name, for "
            "neighbours remember this one"
        )
    return report.head, held


def _match(path: Path, held: Identity, asked: Identity) -> None:
    for name, was, now in zip(Identity._fields, held, asked, strict=True):
        if was != now:
            raise LedgerError(
                f"ledger {path} was made for {WORDS[name]} {was}, and this agent has {now}; "
                "nothing was released; use the ledger that belongs to it, or a new file"
            )


def _begins_anew(store: Store, held: Contents, manifest: Manifest, had_log: bool) -> bool:
    """A new epoch; a state said not to be kept; or one that may be old.

    Old by a power cut, where saving did not wait for the disk, or because the log is not there.
    """
    if held.manifest != manifest.digest.hex() or not (held.clean or had_log):
        return True
    state = store.state()
    if state is not None and not state[0]:
        return True
    waited = held.clean or held.facts["durability"] == FULL
    same_boot = bool(boot_id()) and held.facts["boot"] == boot_id()
    return not (waited or same_boot)


def _terms(manifest: Manifest) -> dict[str, str | int]:
    return {
        "manifest": manifest.digest.hex(),
        "name": manifest.name,
        "epoch": manifest.epoch,
    }


def _secret(device: bytes | None, agent: str) -> bytes:
    """With it an agent recognises what it once said, also after an older copy was put back.

    Made from the device's key where there is one: then also after the ledger was lost.
    """
    return secrets.token_bytes(SECRET) if device is None else derive(device, "words", agent)


def origins(path: Path, facts: dict[str, str], device: bytes | None) -> Origins:
    """What names the readings of a ledger, with the key that it was begun with."""
    secret = bytes.fromhex(facts["secret"]) if facts["bound"] == OWN else device
    found = None if secret is None else Origins(secret, facts["agent"])
    if found is not None and found.check == facts["bound_check"]:
        return found
    raise LedgerError(
        f"ledger {path} knows its readings by the private key of its device, and "
        f"{'none was given' if secret is None else 'this is another one'}: which rows were "
        "released could not be told; nothing was released; put the device's key back (a "
        "certificate that is renewed keeps it)"
    )


def _use(durability: str) -> dict[str, str | int]:
    return {"durability": durability, "boot": boot_id(), "clean": 0}
