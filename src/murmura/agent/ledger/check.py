"""Is a ledger what it was when the agent last wrote it? And what does it say?

Seen without a key: damage of the file, a broken chain, releases cut off, sums that do not add up,
and a ledger that knows of fewer releases than the lock beside it. Not seen without a key: a change
by somebody who then computed chain, head and sums again. Not seen here at all: a whole older copy
put back together with its lock file; neighbours notice that, since they remember rounds.
"""

from __future__ import annotations

import hmac
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from murmura.agent.ledger import chain
from murmura.agent.ledger.account import Account
from murmura.agent.ledger.faults import explain, told
from murmura.agent.ledger.lock import Remembered, remembered
from murmura.agent.ledger.records import Entry, Identity, Spent, Total
from murmura.agent.ledger.store import Store
from murmura.errors import LedgerError

NO_KEY = (
    "without the key: a change by somebody who computed the chain and the sums again, "
    "and any change of the state of mixing"
)
NO_SEAL = "it was made without a key: who can write the file can change it and leave no trace"
SECRET = 32  # bytes that the agent's neighbours prove its words with; not part of what is told
OLD_COPY = "a whole older copy, lock file included: only neighbours, who remember rounds, see that"


class Contents(NamedTuple):
    """All that a ledger says, the state of mixing aside."""

    identity: Identity
    manifest: str  # sha256 in hexadecimal
    name: str
    epoch: int
    life: int
    clean: bool  # whether the agent closed it
    sealed: bool
    entries: tuple[Entry, ...]
    facts: dict[str, str]

    @property
    def account(self) -> Account:
        """What was spent and what is left."""
        return Account.of(self.identity, self.entries)


@dataclass(frozen=True)
class Verification:
    """What was found: `ok` where there is no problem, and what this check cannot see."""

    ok: bool
    problems: tuple[str, ...]
    unseen: tuple[str, ...]
    agent: str
    releases: int
    spent: Spent
    remaining: Spent
    head: str


def verify(path: str | Path, key: bytes | None = None) -> Verification:
    """Check a ledger without changing it; it may be in use."""
    place = Path(path)
    memory = remembered(place)  # first: a ledger in use may only have more by the time it is read
    try:
        store = _reader(place)
    except sqlite3.Error as problem:
        return _unreadable(problem)
    try:
        store.db.execute("BEGIN")
        return inspect(store, key, memory)[0]
    except (sqlite3.Error, ValueError, KeyError, TypeError) as problem:
        return _unreadable(problem)
    finally:
        store.close()


def look(path: str | Path) -> Contents:
    """Read a ledger without changing it; it may be in use."""
    place = Path(path)
    with told(place, "read it"):
        store = _reader(place)
        try:
            store.db.execute("BEGIN")
            return contents(store)
        except (ValueError, KeyError, TypeError) as problem:
            raise LedgerError(
                f"ledger {place} does not say what a ledger says ({type(problem).__name__}); "
                "run `murmura ledger verify` on it, or check the path"
            ) from problem
        finally:
            store.close()


def _reader(path: Path) -> Store:
    if not path.is_file():
        raise LedgerError(f"there is no ledger at {path}; check the path")
    return Store(path, read_only=True)


def contents(store: Store) -> Contents:
    """Everything in it, as it stands."""
    facts = store.meta()
    if int(facts["format"]) != chain.FORMAT:
        raise LedgerError(
            f"the ledger of {facts['agent']} has format {facts['format']} and this version of "
            f"murmura reads {chain.FORMAT}; use the version that wrote it"
        )
    if len(bytes.fromhex(facts.pop("secret"))) != SECRET:
        raise ValueError
    identity = Identity(
        facts["agent"],
        facts["terms"],
        facts["unit"],
        int(facts["window"]),
        float(facts["epsilon"]),
        float(facts["delta"]),
    )
    return Contents(
        identity,
        facts["manifest"],
        facts["name"],
        int(facts["epoch"]),
        int(facts["life"]),
        facts["clean"] == "1",
        bool(facts["seal"]),
        tuple(store.entries()),
        facts,
    )


def inspect(
    store: Store, key: bytes | None, memory: Remembered | None
) -> tuple[Verification, Contents]:
    """Check everything that can be checked."""
    damage = tuple(f"the file is damaged: {found}" for found in store.damage())
    held = contents(store)
    problems = (
        *damage,
        *_chain(held),
        *_sums(held),
        *_lost(held, memory),
        *_seal(held, key),
        *_state(store, held, key),
    )
    unseen = (NO_SEAL,) if not held.sealed else (NO_KEY,) if key is None else ()
    account = held.account
    return (
        Verification(
            not problems,
            problems,
            (*unseen, OLD_COPY),
            held.identity.agent,
            len(held.entries),
            account.spent,
            account.remaining,
            held.facts["head"],
        ),
        held,
    )


def _chain(held: Contents) -> list[str]:
    before, problems = chain.genesis(held.identity), []
    for place, entry in enumerate(held.entries, 1):
        linked = entry.before == before and entry.seq == place
        if not linked or chain.link(before, place, *entry[1:8]) != entry.hash:
            problems.append(f"release {place} (reading {entry.reading}) breaks the chain")
            break
        before = entry.hash
    if not problems and before != held.facts["head"]:
        problems.append(
            f"the chain ends in {before[:12]}, and was left at {held.facts['head'][:12]}"
        )
    return problems


def _sums(held: Contents) -> list[str]:
    problems, found = [], len(held.entries)
    if int(held.facts["count"]) != found:
        problems.append(f"{found} releases are there, and {held.facts['count']} were counted")
    total = Total()
    for entry in held.entries:
        total = total.plus(entry.epsilon, entry.delta)
    noted = _noted(held)
    if noted != total.rounded:
        problems.append(
            f"the releases add up to epsilon = {total.rounded.epsilon:g}, "
            f"and {noted.epsilon:g} was written down"
        )
    return problems


def _noted(held: Contents) -> Spent:
    return Spent(float(held.facts["spent_epsilon"]), float(held.facts["spent_delta"]))


def _lost(held: Contents, memory: Remembered | None) -> list[str]:
    if memory is None or memory.releases <= len(held.entries):
        return []
    return [
        f"the lock file remembers {memory.releases} releases and the ledger {len(held.entries)}: "
        "its write-ahead log was deleted, or an older copy put in its place"
    ]


def _seal(held: Contents, key: bytes | None) -> list[str]:
    if key is None:
        return []
    if not held.sealed:
        return ["it carries no seal although there is a key: the seal was taken off, or never was"]
    count, facts = len(held.entries), held.facts
    right = chain.seal(key, held.identity, count, facts["head"], _noted(held), held.life)
    if hmac.compare_digest(right, facts["seal"]):
        return []
    return ["the seal does not fit: it was changed without the key, or this is another key"]


def _state(store: Store, held: Contents, key: bytes | None) -> list[str]:
    found = store.state()
    if found is None or (held.sealed and key is None):
        return []
    state, _, mark = found
    fits = hmac.compare_digest(chain.mark(key if held.sealed else None, state), mark)
    return [] if fits else ["the state of mixing is not what was saved"]


def _unreadable(problem: Exception) -> Verification:
    if isinstance(problem, sqlite3.Error):
        text = explain(problem)[0]
    else:
        text = f"it does not say what a ledger says ({type(problem).__name__})"
    nothing = Spent(0.0, 0.0)
    return Verification(False, (text,), (OLD_COPY,), "", 0, nothing, nothing, "")
