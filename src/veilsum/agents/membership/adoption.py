"""Which epoch an agent follows: the latest one that the authority signed, and never an earlier one.

An agent that is given a file to watch ([membership] file) looks at it before it starts and while it
runs. Of the epochs that it may adopt, all are signed by its authority, are of its network, are later
than its own, and change the membership and nothing else: the terms of what it releases were agreed
on by its operator, and an authority cannot change them. What is adopted is kept beside the ledger,
so a file that is removed or replaced by an older one later takes nothing back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from veilsum.agents.manifest import Manifest
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.scenario_terms import signed_terms
from veilsum.errors import AgentError, VeilsumError

if TYPE_CHECKING:
    from veilsum.agents.config import Setup

Found = TypeVar("Found")
MEMBERSHIP = frozenset(  # fields of a manifest that a new epoch may change
    {
        "epoch", "members", "links", "diameter", "quorum", "absent", "nonce", "signing_keys",
    }
)  # fmt: skip
SIMULATED = frozenset({"hops", "members"})  # options of a simulated session, from the network
LOOK_EVERY = 1.0  # seconds between two looks at the file
AGAIN = 60.0  # seconds after which a file that could not be adopted is examined again


def adopted_path(ledger: Path) -> Path:
    """Where the epoch that an agent has adopted is kept: beside its ledger."""
    return ledger.with_name(f"{ledger.name}.epoch.json")


def check_successor(before: Manifest, after: Manifest) -> None:
    """Raise unless an epoch may follow another: it is later, and changes the membership alone.

    Parameters
    ----------
    before, after : Manifest
        The terms of both.

    Raises
    ------
    AgentError
        If it is no later epoch, changes another term, or neighbours' estimates are protected.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from veilsum.scenario import Scenario
    >>> problem = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''').build().problem
    >>> first = Manifest.of(problem, "ring")
    >>> check_successor(first, replace(first, epoch=2, quorum=3))
    >>> check_successor(first, replace(first, epoch=2, epsilon=9.0))
    Traceback (most recent call last):
    ...
    veilsum.errors.AgentError: epoch 2 changes epsilon from 1.0 to 9.0, and a new epoch changes the \
membership alone; write that term as it was
    """
    check_later(before.epoch, after.epoch)
    if after.hides_neighbours:
        raise AgentError(NETWORK_DP)
    for name in Manifest.FIELDS:
        was, now = _comparable(before, name), _comparable(after, name)
        if name not in MEMBERSHIP and was != now:
            raise AgentError(
                f"epoch {after.epoch} changes {name} from {was} to {now}, and a new epoch changes "
                "the membership alone; write that term as it was"
            )


def check_later(before: int, after: int) -> None:
    """Raise unless an epoch is later than the one in force."""
    if after <= before:
        raise AgentError(
            f"epoch {after} is not later than epoch {before}, which is in force; an "
            "epoch is never taken back: roll out the membership that is wanted as a later one"
        )


NETWORK_DP = (
    "under Network DP a release is the noise that hides the neighbours in one incarnation, and a new "
    "epoch would send it again: the membership cannot change; end this run, and begin another with "
    "new ledgers and budgets"
)


def check_signed(written: Manifest, signed: Manifest, where: str) -> None:
    """Raise unless a site's scenario and the signed epoch that it follows agree in all but the membership.

    Parameters
    ----------
    written, signed : Manifest
        The terms of the scenario, and of the epoch.
    where : str
        The place at which the scenario is named, for errors.

    Raises
    ------
    AgentError
        If the scenario is later than the epoch, another version of it, or differs in another term.
    """
    if written.epoch > signed.epoch:
        raise AgentError(
            f"{where}: the scenario has epoch {written.epoch}, and the newest signed epoch here is "
            f"{signed.epoch}; copy the epoch.json that `veilsum members rollout` wrote with this scenario to "
            "where [membership] file says, or restore the scenario of that epoch"
        )
    if written.epoch == signed.epoch:
        if written.digest != signed.digest:
            what = signed.first_difference(written.field_digests)
            raise AgentError(
                f"{where}: the scenario of epoch {written.epoch} differs in {what} from the one that "
                "the authority signed; restore it, or have it signed as a later epoch with `veilsum "
                "members rollout`"
            )
        return
    check_successor(written, signed)


def _comparable(manifest: Manifest, name: str) -> object:
    """A field, without what a masked sum's options say of the network."""
    found = getattr(manifest, name)
    if name == "options" and manifest.masked:
        return tuple((key, value) for key, value in found if key not in SIMULATED)
    return found


def latest(network: str, ca: Path, *files: Path) -> tuple[SignedEpoch | None, list[str]]:
    """The latest epoch among files that the authority has signed, and why others are not used.

    Parameters
    ----------
    network : str
        Name of the network.
    ca : Path
        The authority's certificate.
    *files : Path
        Those that do not exist are left out.

    Returns
    -------
    (SignedEpoch or None, list of str)
        The epoch, and a line for each file that is none.
    """
    found: SignedEpoch | None = None
    problems = []
    for path in files:
        if not path.exists():
            continue
        try:
            one = read_for(network, path, ca)
        except AgentError as problem:
            problems.append(str(problem))
            continue
        if found is None or one.epoch > found.epoch:
            found = one
    return found, problems


def read_for(network: str, path: Path, ca: Path) -> SignedEpoch:
    """A signed epoch of a network; raises `AgentError` for another's."""
    found = SignedEpoch.read(path, ca)
    if found.network != network:
        raise AgentError(
            f"{path} is an epoch of the network {found.network}, and this one is {network}; "
            "nothing of it is used"
        )
    return found


def later_in(path: Path, present: Manifest, ca: Path) -> SignedEpoch | None:
    """The later epoch that a file has; None if it is the present one.

    Parameters
    ----------
    path : Path
        The file.
    present : Manifest
        The terms in force.
    ca : Path
        The authority's certificate.

    Raises
    ------
    AgentError
        If the authority has not signed it, it is of another network, or earlier.
    """
    signed = read_for(present.name, path, ca)
    if signed.epoch == present.epoch:
        return None
    check_later(present.epoch, signed.epoch)
    return signed


class LaterEpoch(NamedTuple):
    """An epoch that is to be adopted.

    Attributes
    ----------
    signed : SignedEpoch
        As the authority signed it.
    manifest : Manifest
        Its terms.
    setup : Setup or None
        The agent's setup under it; None if the agent is no member any more.
    """

    signed: SignedEpoch
    manifest: Manifest
    setup: Setup | None


class FileLook(Generic[Found]):
    """Looks at a file that may be replaced, and examines each version of it.

    Parameters
    ----------
    examine : callable
        Called with the path of a new version; what it finds, or None. It raises `VeilsumError` for one
        that cannot be used, which is examined again after a minute: what it needs may come later.
    report : callable
        Called with a line for each version that cannot be used.
    clock : callable
        Seconds that never decrease.
    """

    def __init__(
        self,
        examine: Callable[[Path], Found | None],
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing was looked at yet."""
        self._examine, self._report, self._clock = examine, report, clock
        self._seen: tuple[int, int, int] | None = None
        self._next, self._reported, self._again = 0.0, "", math.inf

    def look(self, path: Path | None) -> Found | None:
        """What a new version of the file gives, if there is one; at most one look a second."""
        now = self._clock()
        if path is None or now < self._next:
            return None
        self._next = now + LOOK_EVERY
        try:
            found = path.stat()
        except OSError:
            return None
        version = found.st_mtime_ns, found.st_size, found.st_ino
        if version == self._seen and now < self._again:
            return None
        self._seen, self._again = version, math.inf
        try:
            return self._examine(path)
        except (VeilsumError, OSError) as problem:
            text = str(problem)
            if text != self._reported:
                self._report(text)
            self._reported, self._again = text, now + AGAIN
            return None


class EpochWatcher:
    """Looks at the file that an agent watches, and finds a later epoch to adopt.

    Parameters
    ----------
    setup : Setup
        The agent's, in the present epoch.
    report : callable
        Called with a line for each version of the file that cannot be adopted.
    clock : callable
        Seconds that never decrease.
    """

    def __init__(
        self,
        setup: Setup,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing was looked at yet."""
        self._setup = setup
        stays = f"this agent stays in epoch {setup.manifest.epoch}"
        self._file = FileLook(self._examine, lambda text: report(f"{text}; {stays}"), clock)

    def look(self) -> LaterEpoch | None:
        """The epoch to adopt, if there is one; at most one look a second."""
        return self._file.look(self._setup.membership_file)

    def _examine(self, path: Path) -> LaterEpoch | None:
        setup = self._setup
        signed = later_in(path, setup.manifest, setup.authority_certificate())
        if signed is None:
            return None
        _, manifest, _ = signed_terms(signed, setup.config.variant)
        check_successor(setup.manifest, manifest)
        if setup.config.name not in manifest.labels:
            return LaterEpoch(signed, manifest, None)
        following = setup.under(signed)
        following.check_start()  # later is too late: this agent would have ended
        return LaterEpoch(signed, manifest, following)


def describe_change(before: Manifest, after: Manifest) -> str:
    """Who joined and who is no member any more, in words.

    Parameters
    ----------
    before, after : Manifest
        The terms of two epochs.
    """
    joined = [label for label in after.labels if label not in before.certificates]
    gone = [label for label in before.labels if label not in after.certificates]
    parts = [f"joined: {', '.join(joined)}"] if joined else []
    parts += [f"no member any more: {', '.join(gone)}"] if gone else []
    return "; ".join(parts) or "the same members"
