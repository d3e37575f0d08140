"""Connects to the sites of a watch file and keeps the last status of each; says who is silent.

One thread with an event loop serves all sites. A link that ends is made again after 0.5, 1, 2, ... up to
30 seconds. A site is silent while there is no link to it, or no status came for three heartbeats; one
that said it was done, or stopped, need not say more.

The watch file and the file of the next epoch are followed: of an epoch that the authority signed and that
is later, new members are watched and removed ones are not. A site that is still in an epoch that was
followed before is heard; what one says under terms that were never seen is not taken.

    wait connect --> handshake, name of the site --> frames --> checked --> events, and `sites`
      ^------------------ problem, silent since <-------------------------------'
"""

from __future__ import annotations

import asyncio
import queue
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from veilsum.agents.manifest import Manifest
from veilsum.agents.membership.adoption import FileLook, describe_change
from veilsum.agents.observers.publisher import refusal
from veilsum.agents.observers.received import checked_status
from veilsum.agents.observers.watch_file import Watch
from veilsum.agents.pki import Credentials, KeyWatch
from veilsum.agents.pki.certificates import member_of
from veilsum.agents.roles import Role
from veilsum.agents.runtime.status import ENDED, HEARTBEAT
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.agents.wire import MOST_BYTES, WireError, decode_status
from veilsum.errors import AgentError

SILENT_AFTER = 3 * HEARTBEAT  # seconds without a status
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between attempts to connect
CONNECT = 10.0  # seconds for an attempt
SWEEP = 1.0  # seconds between two looks for sites that fell silent
MOST_EVENTS = 1000  # that wait to be taken; then the oldest are dropped


class ObservedStatus(NamedTuple):
    """A status that came from a site.

    Attributes
    ----------
    label : str
        Of the agent.
    status : dict
        `AgentStatus.public()`, checked.
    received_at : float
        In seconds of the epoch.
    """

    label: str
    status: dict[str, Any]
    received_at: float


class SilentSite(NamedTuple):
    """A site of which nothing is heard.

    Attributes
    ----------
    label : str
        Of the agent.
    since : float
        In seconds of the epoch.
    reason : str
        Why, as far as it is known.
    epoch : int or None
        The epoch that it is in, if it said so under terms that are not known here.
    """

    label: str
    since: float
    reason: str
    epoch: int | None = None


class WatchChanged(NamedTuple):
    """Other sites are watched: a later epoch, or other names in the watch file.

    Attributes
    ----------
    watch : Watch
        What is watched from now on.
    joined, former : tuple of str
        Members since this epoch, and those that are none any more; empty if the epoch is the same.
    text : str
        The change in words.
    """

    watch: Watch
    joined: tuple[str, ...]
    former: tuple[str, ...]
    text: str


WatchEvent = ObservedStatus | SilentSite | WatchChanged


@dataclass(frozen=True)
class SiteView:
    """What is known of a site.

    Attributes
    ----------
    last : ObservedStatus or None
        Its last status.
    silent_since : float or None
        Since when nothing is heard; None while it is.
    reason : str
        Why it is silent; empty while it is not.
    missed : int
        Statuses that were lost on the way, by their sequence numbers.
    """

    last: ObservedStatus | None = None
    silent_since: float | None = None
    reason: str = ""
    missed: int = 0

    @property
    def ended(self) -> bool:
        """Whether it said that no further status is to be expected."""
        return self.last is not None and self.last.status["state"] in ENDED


class StatusWatcher:
    """Watches sites until it is closed.

    Parameters
    ----------
    name : str
        The observer's.
    credentials : Credentials
        Its certificate.
    manifest : Manifest
        The terms of the fleet.
    sites : mapping of str to Endpoint
        Where each site serves its statuses, by label.
    denied : Path, optional
        Where the authority's deny list is put.
    watch : Watch, optional
        Whose files are followed while it runs.
    clock, wall : callable
        Seconds that never decrease, and seconds of the epoch.

    Attributes
    ----------
    on_notice : callable or None
        Called with what is to be said of the observer's certificate, the deny list and the epoch.

    Examples
    --------
    >>> from veilsum.agents.observers import StatusWatcher  # doctest: +SKIP
    >>> with StatusWatcher.of(Watch.load("watch.toml")) as watcher:  # doctest: +SKIP
    ...     for event in watcher.take(10.0):
    ...         print(event.label)
    """

    def __init__(
        self,
        name: str,
        credentials: Credentials,
        manifest: Manifest,
        sites: Mapping[str, Endpoint],
        *,
        denied: Path | None = None,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is connected yet."""
        self.name, self.manifest, self.endpoints = name, manifest, dict(sites)
        self._clock, self._wall = clock, wall
        lists = () if denied is None else denied
        self._keys = KeyWatch(credentials, name, role=Role.OBSERVER, denied=lists)
        self.on_notice: Callable[[str], None] | None = None
        self._keys.notify = lambda _, text: self._notice(text)
        self.watch = watch
        self._epoch_file = FileLook(self._later, self._stays)
        self._watch_file = FileLook(self._reread, self._notice)
        self._followed = {manifest.digest.hex()}  # the manifests of this epoch and of those before
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._untaken: dict[str, tuple[dict[str, Any], int]] = {}  # the last under unknown terms
        client_context(credentials)  # raises if the files cannot be used
        self._lock = threading.Lock()
        self._views = {label: SiteView() for label in sites}
        self._heard: dict[str, float] = {}  # by `clock`
        self._sequences: dict[str, int] = {}
        self._events: queue.Queue[WatchEvent] = queue.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started = 0.0

    @classmethod
    def of(cls, watch: Watch) -> StatusWatcher:
        """The watcher of a watch file, not yet started."""
        return cls(
            watch.name,
            watch.credentials,
            watch.manifest,
            watch.sites,
            denied=watch.denied,
            watch=watch,
        )

    def start(self) -> None:
        """Connect to all sites, in a thread of its own."""
        self._started = self._wall()
        self._keys.start()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop,), daemon=True, name="veilsum-watch"
        )
        self._thread.start()

    def close(self) -> None:
        """Close all links; may be called twice."""
        self._keys.close()
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._cancel, loop)
            self._thread.join(5.0)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def take(self, seconds: float) -> list[WatchEvent]:
        """What happened since the last call; waits for the first of it.

        Parameters
        ----------
        seconds : float
            How long at most.

        Returns
        -------
        list of ObservedStatus, SilentSite or WatchChanged
            In order; empty if nothing happened.
        """
        found = []
        with suppress(queue.Empty):
            found.append(self._events.get(timeout=seconds))
            while True:
                found.append(self._events.get_nowait())
        return found

    @property
    def sites(self) -> dict[str, SiteView]:
        """What is known of each site at this moment."""
        with self._lock:
            return dict(self._views)

    @property
    def silent(self) -> dict[str, float]:
        """Since when each silent site is, in seconds of the epoch."""
        found = {label: view.silent_since for label, view in self.sites.items()}
        return {label: since for label, since in found.items() if since is not None}

    @property
    def heard_of_all(self) -> bool:
        """Whether each site has sent a status, or is known to be silent."""
        return all(view.last or view.silent_since is not None for view in self.sites.values())

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            self._tasks = {
                k: loop.create_task(self._watch(k, at)) for k, at in self.endpoints.items()
            }
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(asyncio.gather(self._sweep(), self._follow_files()))
        finally:
            ending = asyncio.gather(*self._tasks.values(), return_exceptions=True)
            loop.run_until_complete(ending)
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    @staticmethod
    def _cancel(loop: asyncio.AbstractEventLoop) -> None:
        for task in asyncio.all_tasks(loop):
            task.cancel()

    async def _watch(self, label: str, endpoint: Endpoint) -> None:
        """Connect, read, and connect again, for ever."""
        pause = FIRST_PAUSE
        while True:
            before = self._heard.get(label)
            try:
                reason = await self._follow(label, endpoint)
            except (OSError, AgentError, asyncio.IncompleteReadError) as problem:
                reason = _described(problem, label)
            if self._heard.get(label) != before:
                pause = FIRST_PAUSE
            self._fell_silent(label, reason)
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _follow(self, label: str, endpoint: Endpoint) -> str:
        """Read the statuses of a site until its link ends; why it did."""
        host = endpoint.host.strip("[]")
        context = client_context(self._keys.credentials)  # as it is now: it may have been renewed
        async with asyncio.timeout(CONNECT):
            reader, writer = await asyncio.open_connection(
                host, endpoint.port, ssl=context, server_hostname=host, limit=MOST_BYTES + 4,
                ssl_handshake_timeout=CONNECT,
            )  # fmt: skip
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(True) or b""
            self._check_site(label, endpoint, shown)
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                self._check_site(label, endpoint, shown)  # it may have been denied since
                if size > MOST_BYTES:
                    raise WireError(f"{size:,} bytes, at most {MOST_BYTES:,} are accepted")
                self._received(label, await reader.readexactly(size))
        finally:
            writer.transport.abort()

    def _check_site(self, label: str, endpoint: Endpoint, shown: bytes) -> None:
        name, expected = member_of(shown), self.manifest.certificates[label]
        reason = refusal(self._keys, shown)
        if reason:
            raise AgentError(f"the certificate that is presented at {endpoint}: {reason}")
        if name != expected:
            raise AgentError(
                f"a certificate for {name!r} is presented at {endpoint}, expected {expected!r}"
            )

    def _received(self, label: str, frame: bytes) -> None:
        """Take a status of a site, if it is one, for this observer, of this agent and fleet."""
        message = decode_status(frame)
        if (message.sender, message.receiver) != (label, self.name):
            raise AgentError(f"it sent a status of {message.sender!r} for {message.receiver!r}")
        status = checked_status(message.text)
        if status["agent"] != label:
            raise AgentError(f"it sent a status of {status['agent']!r}")
        self._take(label, status, message.sequence)

    def _take(self, label: str, status: dict[str, Any], sequence: int) -> None:
        """Use a status under terms that are or were followed; keep another until they are."""
        if status["manifest"] not in self._followed:
            self._untaken[label] = status, sequence
            self._fell_silent(label, self._why_untaken(status), status["epoch"])
            return
        self._untaken.pop(label, None)
        observed = ObservedStatus(label, status, self._wall())
        last = self._sequences.get(label, sequence)
        lost = max(0, sequence - last - 1)
        self._sequences[label] = sequence
        with self._lock:
            self._heard[label] = self._clock()
            missed = self._views[label].missed + lost
            self._views[label] = SiteView(observed, missed=missed)
        self._put(observed)

    def _why_untaken(self, status: dict[str, Any]) -> str:
        """Why a status under unknown terms is not used, and what to do."""
        epoch, ours = status["epoch"], self.manifest.epoch
        if epoch < ours:
            return (
                f"it is in epoch {epoch}, and this watcher in epoch {ours}: the roll-out has not reached "
                "it; copy epoch.json to the place that [membership] in its agent.toml names"
            )
        if epoch > ours:
            file = None if self.watch is None else self.watch.membership
            where = (
                "a file that [membership] in the watch file names" if file is None else f"{file}"
            )
            return (
                f"it is in epoch {epoch}, and this watcher in epoch {ours}; copy the signed epoch.json to "
                f"{where}"
            )
        return (
            f"it runs another manifest, {status['manifest'][:12]}; this scenario's is "
            f"{self.manifest.digest.hex()[:12]}: use the file of the sites"
        )

    def _fell_silent(self, label: str, reason: str, epoch: int | None = None) -> None:
        """Note that nothing is heard; said once, and again for another reason."""
        with self._lock:
            view = self._views[label]
            if view.ended or (view.silent_since is not None and view.reason == reason):
                return
            since = view.silent_since
            if since is None:
                since = self._wall() if view.last else self._started
            self._views[label] = replace(view, silent_since=since, reason=reason)
        self._put(SilentSite(label, since, reason, epoch))

    async def _follow_files(self) -> None:
        """Look at the watch file and at the file of the next epoch, and change what is watched."""
        while self.watch is not None:
            for file, path in (
                (self._watch_file, self.watch.path),
                (self._epoch_file, self.watch.membership),
            ):
                # In a thread: a scenario takes a moment to load.
                found = await asyncio.to_thread(file.look, path)
                if found is not None:
                    self._change(found)
            await asyncio.sleep(SWEEP)

    def _later(self, path: Path) -> Watch | None:
        return None if self.watch is None else self.watch.later(path)

    def _reread(self, path: Path) -> Watch | None:
        return None if self.watch is None else self.watch.reread(path)

    def _stays(self, text: str) -> None:
        self._notice(f"{text}; this watcher stays in epoch {self.manifest.epoch}")

    def _notice(self, text: str) -> None:
        if self.on_notice is not None:
            self.on_notice(text)

    def _change(self, watch: Watch) -> None:
        """Watch other sites from now on, in the loop's thread."""
        before, after = self.manifest, watch.manifest
        self.watch, self.manifest = watch, after
        self._followed.add(after.digest.hex())
        gone = {k for k, at in self.endpoints.items() if watch.sites.get(k) != at}
        new = {k: at for k, at in watch.sites.items() if self.endpoints.get(k) != at}
        for label in gone:
            self._tasks.pop(label).cancel()
            for known in (self._heard, self._sequences, self._untaken):
                known.pop(label, None)
        with self._lock:
            self.endpoints = dict(watch.sites)
            fresh = {label: SiteView() for label in new}
            self._views = {k: fresh.get(k) or self._views[k] for k in self.endpoints}
        for label, endpoint in new.items():
            self._tasks[label] = asyncio.get_running_loop().create_task(
                self._watch(label, endpoint)
            )
        joined = tuple(k for k in after.labels if k not in before.certificates)
        former = tuple(k for k in before.labels if k not in after.certificates)
        text = f"epoch {after.epoch} is followed: {describe_change(before, after)}"
        if after.epoch == before.epoch:
            text = f"the watch file names {len(watch.sites)} of {len(after.labels)} members now"
        self._put(WatchChanged(watch, joined, former, text))
        for label, (status, sequence) in list(self._untaken.items()):
            self._take(label, status, sequence)

    async def _sweep(self) -> None:
        """Find links that are there and say nothing."""
        while True:
            await asyncio.sleep(SWEEP)
            now = self._clock()
            for label, heard in list(self._heard.items()):
                view = self._views[label]
                if now - heard > SILENT_AFTER and view.silent_since is None and not view.ended:
                    assert view.last is not None
                    with self._lock:
                        reason = f"no status for {SILENT_AFTER:.0f} s"
                        since = view.last.received_at
                        self._views[label] = replace(view, silent_since=since, reason=reason)
                    self._put(SilentSite(label, since, reason))

    def _put(self, event: WatchEvent) -> None:
        while self._events.qsize() >= MOST_EVENTS:
            with suppress(queue.Empty):
                self._events.get_nowait()
        self._events.put(event)


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS of an observer: TLS 1.3, the host's name verified against the fleet's authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=str(credentials.ca))
    context.load_cert_chain(str(credentials.certificate), str(credentials.key))
    return context


def _described(problem: Exception, label: str) -> str:
    """Why there is no link to a site, and what to look at."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {problem.verify_message or problem.reason}"
    if isinstance(problem, ssl.SSLError):
        alert = str(problem.reason or "refused").lower().replace("_", " ")
        return f"the link ended: {alert}; the log of {label} says more"
    if isinstance(problem, asyncio.IncompleteReadError):
        return f"it closed the link; if it never sent a status, see the log of {label}"
    if isinstance(problem, TimeoutError):
        return "it does not answer"
    if isinstance(problem, OSError):
        return f"it does not answer: {problem.strerror or problem}"
    return str(problem)
