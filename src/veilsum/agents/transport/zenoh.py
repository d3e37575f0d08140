"""Messages over zenoh: one session for all agents of a device, no server, TLS on both ends.

Messages of mass are cumulative, so the last one of a link contains all before: it is stored, and
sent again when the neighbour comes up, for the first time or again. A link needs no other cache and
no other recovery. While it is up nothing is lost on it, unless the neighbour has stopped reading
and the queue (thousands of messages) is full: then messages are dropped rather than waited for.
Agents of one device communicate without the network.

A message is delivered if the key it came under names its sender, its receiver is local and the two
are neighbours. The key can be trusted: access control admits it only from the device with that name
on its certificate. Which certificate that is, devices prove to each other over the link, and messages
are sealed between those who have (`channels`): a device is heard until its certificate ends or is
denied, and no longer. Without certificates neither holds, so that mode is restricted to loopback.

Certificate files are followed while the session runs. When they are renewed, the session is closed and
opened again with the new ones: neighbours see the links go down and up, and are sent the last messages.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import Any, NamedTuple

from veilsum._extras import install_command
from veilsum.agents.events import PeerDown, PeerUp, Received, ReceivedBatch
from veilsum.agents.messages import CumulativeMass, Message
from veilsum.agents.pki import Credentials, KeyWatch, check_credentials
from veilsum.agents.roles import check_members
from veilsum.agents.transport.admission import Change, PeerAdmission, Presence
from veilsum.agents.transport.base import Arrival, Deliver, Refused, TransportNotice, Undecoded
from veilsum.agents.transport.channels import MARK, Channels, ProofError
from veilsum.agents.transport.guard import LinkGuard
from veilsum.agents.transport.negotiation import LinkVersions
from veilsum.agents.transport.payloads import Direction, check_message, pack, unpack
from veilsum.agents.transport.refusals import RefusedCalls
from veilsum.agents.transport.zenoh_config import (
    NOT_ACCEPTED,
    Endpoint,
    batch_key,
    data_key,
    key_prefix,
    kind_of,
    link_problem,
    liveliness_key,
    parse_key,
    proof_key,
    settings,
    source_of,
)
from veilsum.agents.wire import MOST_BYTES, SkippedFrameError
from veilsum.errors import AgentError, MissingExtraError

QUEUE = 4096  # messages read off the network before its flow is held back
BATCH = 1000  # messages in one payload
MOST_BATCH_BYTES = 1 << 20
MOST_UNDECODED = 1 << 25  # bytes of payloads that wait to be decoded
FIRST_PROBE, NEXT_PROBE = 3.0, 10.0  # seconds until missing links are probed
TEND = 1.0  # seconds between two looks at channels and links
MOST_SHOWN = 8  # names in a log line
AGAIN = 1.0  # seconds until a session that could not be opened again is tried once more

__all__ = ["Presence", "ZenohTransport"]


class Outlet(NamedTuple):
    """A publisher of a session, the key expression it has, and the device that is to read it."""

    session: Any
    publisher: Any
    key: str
    device: str


class ZenohTransport:
    """The links of one device's agents.

    Parameters
    ----------
    network : str
        Name of the network.
    device : str
        The name on this device's certificate.
    listen : sequence of str
        Endpoints to listen on, such as "tls/0.0.0.0:7447".
    connect : mapping of str to str, optional
        Where other devices listen; it suffices that one end of a link knows the other.
    devices : mapping of str to str
        The device of every agent.
    credentials : Credentials, optional
        Certificate and key; required unless `insecure`.
    insecure : bool
        No certificates, on loopback only.
    batched : bool
        Hold messages back until `flush`, and send those to one device in one payload.
    watch : KeyWatch, optional
        Follows the certificate files and the deny list; without a deny list by default.

    Raises
    ------
    AgentError
        If there are no credentials, or an endpoint is invalid.

    Examples
    --------
    >>> transport = ZenohTransport(
    ...     "ring", "gateway", listen=["tcp/127.0.0.1:7447"], devices={"north": "gateway"},
    ...     insecure=True,
    ... )
    >>> transport.attach("north", [])
    >>> ZenohTransport("ring", "gateway", devices={"north": "gateway"})
    Traceback (most recent call last):
    ...
    veilsum.errors.AgentError: gateway has no certificate: `veilsum keys request gateway` makes its \
key, which the authority signs; or run with --insecure, which is for the loopback of one machine only
    """

    only_remote = True  # agents of one device need no network

    def __init__(
        self,
        network: str,
        device: str,
        *,
        listen: Sequence[str] = (),
        connect: Mapping[str, str] | None = None,
        devices: Mapping[str, str],
        credentials: Credentials | None = None,
        insecure: bool = False,
        batched: bool = False,
        watch: KeyWatch | None = None,
    ) -> None:
        """Nothing is opened yet."""
        if credentials is None and not insecure:
            raise AgentError(
                f"{device} has no certificate: `veilsum keys request {device}` makes its key, which "
                "the authority signs; or run with --insecure, which is for the loopback of one "
                "machine only"
            )
        if "*" in (device, *devices.values()):
            raise AgentError("a device cannot be called '*', which stands for all of them")
        check_members((device, *devices.values()))
        self._network, self._device, self._devices = network, device, dict(devices)
        self._credentials = None if insecure else credentials
        self._watch = watch
        self._listen = [Endpoint.parse(text, insecure=insecure) for text in listen]
        known = (connect or {}).items()
        self._connect = {name: Endpoint.parse(text, insecure=insecure) for name, text in known}
        for name, endpoint in self._connect.items():
            endpoint.check_verifiable(name)
        self._neighbours: dict[str, frozenset[str]] = {}
        self._deliver: Deliver | None = None
        self._zenoh: Any = None
        self._session: Any = None
        self._outlets: dict[Direction, Outlet] = {}
        self._routes: dict[Direction, str] = {}  # the device of each remote neighbour, once open
        self._incoming: dict[str, Direction] = {}  # by key
        self._last: dict[Direction, CumulativeMass] = {}
        self._versions = LinkVersions()
        self._skipped: set[tuple[str, int]] = (
            set()
        )  # senders, and kinds of theirs that were reported
        self._batched = batched
        self._held_back: defaultdict[str, list[bytes]] = defaultdict(list)  # by device
        self._batch_outlets: dict[str, Outlet] = {}  # by device
        self._proof_outlets: dict[str, Outlet] = {}  # by device
        self._ends: dict[str, int] = {}  # of the certificates that devices have proved, in seconds
        self._guard = self._guarded(None, (), PeerAdmission(self._devices, (), None))
        self._renewing = False  # while a session is replaced
        self._calling: list[str] = []  # whom the session connects to
        self._refusals = RefusedCalls()
        self._declared: list[Any] = []  # tokens and subscribers, which end when dropped
        self._undecoded = 0  # bytes
        self._counting = threading.Lock()  # of these; the other is held while a full queue waits
        self._lock = threading.RLock()
        self._session_lock = threading.RLock()  # held while a session is replaced
        self._wake = threading.Event()
        self._closed = threading.Event()

    def attach(self, agent: str, neighbours: Collection[str]) -> None:
        """Register a local agent and its neighbours; before `open`."""
        if self._session is not None:
            raise AgentError(f"{agent} must be attached before the transport is opened")
        for label in (agent, *neighbours):
            if label not in self._devices:
                raise AgentError(f"no device is known for agent {label!r}; add it to the members")
        if self._devices[agent] != self._device:
            raise AgentError(
                f"agent {agent!r} belongs to the certificate {self._devices[agent]!r}, "
                f"and this device's is {self._device!r}"
            )
        self._neighbours[agent] = frozenset(neighbours)

    def open(self, deliver: Deliver) -> None:
        """Listen, and connect in the background; agents of this device are up at once."""
        if self._session is not None or not self._neighbours:
            raise AgentError(f"{self._device} opens its transport once, after attaching agents")
        if self._credentials:
            check_credentials(self._credentials, self._device)
            self._watch = self._watch or KeyWatch(self._credentials, self._device)
        self._zenoh, self._deliver = load_zenoh(), deliver
        self._session = self._open_session()
        self._declare()
        if self._watch is not None:
            self._follow(self._watch)
        self._routes = {(agent, peer): self._devices[peer] for agent, peer in self._remote.links}
        for agent, peers in self._neighbours.items():
            for peer in peers & self._neighbours.keys():
                self._notify(agent, PeerUp(peer))

    def send(self, message: Message) -> None:
        """Send at once; a device that has stopped reading delays this by 0.2 s, and only once."""
        direction = message[:2]
        device = self._routes.get(direction)
        if device is None or self._closed.is_set():
            self._send_otherwise(message)
            return
        data = self._versions.encode(message)
        if type(message) is CumulativeMass:
            self._last[direction] = message
        if self._batched:
            self._held_back[device].append(data)
        else:
            self._put(self._outlets[direction], data)

    def _send_otherwise(self, message: Message) -> None:
        """A message that does not leave this device, or cannot be sent."""
        sender, receiver = message[:2]
        if receiver not in self._neighbours.get(sender, ()):
            raise AgentError(f"{sender} has no link to {receiver}; attach it first")
        if self._closed.is_set():
            return
        if self._deliver is None:
            raise AgentError("the transport must be opened before anything is sent")
        self._deliver(receiver, Received(message))

    def flush(self) -> None:
        """Send what was held back for each device, in as few payloads as possible."""
        if not self._held_back:
            return
        held_back, self._held_back = self._held_back, defaultdict(list)
        for device, frames in held_back.items():
            for k in range(0, len(frames), BATCH):
                self._put(self._batch_outlets[device], pack(frames[k : k + BATCH]))

    def close(self) -> None:
        """Close the session; neighbours see it at once."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._wake.set()
        if self._watch is not None:
            self._watch.close()
        with self._session_lock:
            if self._session is not None:
                self._session.close()

    def _open_session(self) -> Any:
        config = self._zenoh.Config()
        remote = self._remote.devices
        self._calling = self._called()
        connect = [self._connect[name] for name in self._calling]
        chosen = settings(
            self._network, self._device, self._listen, connect, remote, self._credentials
        )
        for key, value in chosen.items():
            config.insert_json5(key, json.dumps(value))
        try:
            return self._zenoh.open(config)
        except self._zenoh.ZError as problem:
            where = ", ".join(map(str, self._listen)) or "no endpoint"
            raise AgentError(
                f"{self._device} cannot listen on {where}: {problem}; check that the port is free "
                "and that the certificate files can be read"
            ) from None

    def _declare(self) -> None:
        """Subscribe before declaring presence: whoever sees us can be heard."""
        session, own = self._session, key_prefix(self._network, "*", self._device)
        zid = str(session.zid())
        self._make_outlets(session)
        admission = PeerAdmission(self._devices, self._remote.listeners, self._channels(zid))
        self._guard = self._guarded(session, self._remote.devices, admission)
        self._subscribe(session, f"{own}/**", self._receive_any)
        liveliness = session.liveliness()
        name = f"{zid}{MARK}" if self._credentials else zid
        for agent, device in {(a, self._devices[p]) for a, p in self._remote.links}:
            key = liveliness_key(self._network, self._device, device, agent, name)
            self._declared.append(liveliness.declare_token(key))
        self._subscribe(liveliness, f"{own}/live/**", self._receive_token, history=True)
        if self._credentials:
            listener = session.info.declare_link_events_listener(self._link_event, history=True)
            self._declared.append(listener)

    def _guarded(
        self, session: Any, devices: Collection[str], admission: PeerAdmission
    ) -> LinkGuard:
        """Who may speak in a session; nobody is there before it is open."""
        return LinkGuard(
            session,
            devices,
            admission,
            lambda device, proof: self._publish(self._proof_outlets[device], proof),
            self._announce,
            self._note,
        )

    def _channels(self, session: str) -> Channels | None:
        if self._credentials is None or self._watch is None:
            return None
        return Channels(
            self._network, self._device, session, self._credentials, self._watch.trust, self._ends
        )

    def _make_outlets(self, session: Any) -> None:
        """Publishers for all links of this session."""
        drop = self._zenoh.CongestionControl.DROP

        def outlet(key: str, device: str) -> Outlet:
            made = session.declare_publisher(key, congestion_control=drop)
            return Outlet(session, made, key, device)

        for agent, peer in self._remote.links:
            device = self._devices[peer]
            key = data_key(self._network, self._device, device, agent, peer)
            self._outlets[agent, peer] = outlet(key, device)
            back = data_key(self._network, device, self._device, peer, agent)
            self._incoming[back] = peer, agent
        for device in self._remote.devices:
            ends = self._network, self._device, device
            self._batch_outlets[device] = outlet(batch_key(*ends), device)
            self._proof_outlets[device] = outlet(proof_key(*ends), device)

    def _follow(self, watch: KeyWatch) -> None:
        """Take renewed certificates and newer deny lists from now on."""
        watch.notify = lambda kind, text: self._note(TransportNotice(kind, text))
        watch.renewed.append(self._renew)
        watch.changed.append(self._deny)
        watch.unproved.append(self._forget_proof)
        watch.start()
        threading.Thread(target=self._probe, daemon=True, name="veilsum-probe").start()
        threading.Thread(target=self._tend, daemon=True, name="veilsum-links").start()

    def _called(self) -> list[str]:
        """The neighbours that this end connects to.

        None that is denied, who would be refused; nor one that refuses this device, for a while; nobody
        while this device knows that it is denied itself.
        """
        watch, paused = self._watch, self._refusals.paused()
        names = [name for name in self._connect if name in self._remote.devices - paused]
        if watch is None:
            return names
        if watch.denied_itself():
            return []
        return [name for name in names if not watch.trust.denied_name(name)]

    def _deny(self) -> None:
        """A newer deny list: close links, and call nobody again who is on it.

        A session calls its endpoints until it is closed, several times in a second.
        """
        with self._session_lock:
            if not self._closed.is_set():
                self._guard.review()
        self._wake.set()
        self._call_others()

    def _call_others(self) -> None:
        """Replace the session if it is to call others than it does; the links of all begin anew."""
        if self._calling != self._called():
            self._reopen()

    def _forget_proof(self, device: str) -> None:
        """The operator says that a neighbour went back to a version without proofs."""
        with self._session_lock:
            if not self._closed.is_set():
                self._guard.forget_proof(device)

    def _renew(self) -> None:
        """Another certificate is in use: who has refused the former may accept it."""
        self._refusals.clear()
        self._reopen()

    def _reopen(self) -> None:
        """Close the session and open it with the files that are there now, as often as it takes."""
        with self._session_lock:
            if self._closed.is_set():
                return
            self._renewing = True
            self._guard.leave()
            self._session.close()
            self._declared.clear()
            self._refusals.hang_up()
            while not self._closed.is_set():
                former = self._session
                try:
                    self._session = self._open_session()
                    self._declare()  # reads the files too, which may be replaced once more
                except (AgentError, OSError, ValueError) as problem:
                    self._note(TransportNotice("certificate", f"{problem}; it is tried again"))
                    if self._session is not former:
                        self._session.close()
                    self._declared.clear()
                    self._closed.wait(AGAIN)
                else:
                    self._renewing = False
                    return

    def _subscribe(self, source: Any, key: str, receive: Any, **options: Any) -> None:
        """Declare a subscriber, and a thread that reads it until the session is closed."""
        session = self._session
        subscriber = source.declare_subscriber(
            key, self._zenoh.handlers.FifoChannel(QUEUE), **options
        )
        self._declared.append(subscriber)

        def read() -> None:
            try:
                while True:
                    sample = subscriber.recv()
                    while sample is not None:  # all that is there: fewer changes of threads
                        if session is not self._session:
                            return  # it was replaced, and so was what is known of its links
                        receive(sample)
                        sample = subscriber.try_recv()
            except self._zenoh.ZError:
                return

        threading.Thread(target=read, daemon=True, name="veilsum-read").start()

    def _receive_any(self, sample: Any) -> None:
        """In the order of the link: what is sealed comes after the proof that it needs."""
        kind = kind_of(str(sample.key_expr))
        if kind == "proof":
            self._guard.receive(source_of(str(sample.key_expr)), sample.payload)
        elif kind == "many":
            self._receive_batch(sample)
        else:
            self._receive(sample)

    def _receive(self, sample: Any) -> None:
        key = str(sample.key_expr)
        direction = self._incoming.get(key)
        if direction is None:
            parsed = parse_key(key)
            peer = f"{parsed.sender} on {parsed.source}" if parsed else "unknown"
            self._note(Refused(peer, "a key of no link of this device"))
            return
        sender, receiver = direction
        try:
            payload = self._guard.opened(self._devices[sender], key, sample, MOST_BYTES)
        except ProofError as problem:
            self._notify(receiver, Refused(sender, str(problem)))
            return
        try:
            found = check_message(direction, payload, self._versions.hear)
        except SkippedFrameError as skipped:
            self._report_skipped(receiver, sender, skipped)
        else:
            self._notify(receiver, found)

    def _tend(self) -> None:
        """Hold devices to their certificates: at their end, and when the deny list changes."""
        while not self._closed.is_set():
            channels = self._guard.channels
            assert channels is not None, "there are certificates"
            left = channels.next_end() - channels.trust.wall()
            self._wake.wait(max(0.0, min(TEND, left, self._refusals.next_end())))
            self._wake.clear()
            with self._session_lock:
                if not self._closed.is_set():
                    self._guard.review()
            self._refusals.settle()
            self._call_others()

    def _report_skipped(self, agent: str, sender: str, skipped: SkippedFrameError) -> None:
        """Report a kind of message that this version does not know, once for each sender."""
        if (sender, skipped.kind) not in self._skipped:
            self._skipped.add((sender, skipped.kind))
            self._notify(agent, Refused(sender, f"{skipped.reason}; reported once"))

    def _receive_batch(self, sample: Any) -> None:
        """Pass on several messages as they are: two threads that decode and handle take turns, and
        what one has just made, the other has yet to fetch.
        """
        key = str(sample.key_expr)
        source = source_of(key)
        try:
            data = self._guard.opened(source, key, sample, MOST_BATCH_BYTES)
        except ProofError as problem:
            self._note(Refused(source, f"several messages: {problem}"))
            return
        while self._undecoded > MOST_UNDECODED and not self._closed.wait(0.005):
            pass  # the network is held back
        with self._counting:
            self._undecoded += len(data)
        self._notify("", Undecoded(partial(self._decode, source, data)))

    def _decode(self, source: str, data: bytes) -> list[tuple[str, ReceivedBatch | Refused]]:
        with self._counting:
            self._undecoded -= len(data)
        batches, refused = unpack(
            source, data, self._remote.incoming, self._versions.hear, self._skipped
        )
        found: list[tuple[str, ReceivedBatch | Refused]] = [
            (receiver, ReceivedBatch(messages)) for receiver, messages in batches.items()
        ]
        if refused is not None:
            found.append((next(iter(self._neighbours)), refused))
        return found

    def _receive_token(self, sample: Any) -> None:
        key = str(sample.key_expr)
        alive = sample.kind == self._zenoh.SampleKind.PUT
        self._guard.token(key, alive)

    def _announce(self, changes: Sequence[Change]) -> None:
        """Neighbours came up or went down; one that came up is sent the last message again."""
        for peer, up in changes:
            if not up:
                self._versions.forget(peer)
            for agent in self._remote.listeners.get(peer, ()):
                self._notify(agent, PeerUp(peer) if up else PeerDown(peer))
                last = self._last.get((agent, peer))
                if up and last is not None:
                    self._put(self._outlets[agent, peer], self._versions.encode(last))

    def _link_event(self, event: Any) -> None:
        """Report a device that has a certificate of the authority but is no neighbour, or is denied."""
        name, link = event.link.auth_identifier or "", event.link
        if event.kind != self._zenoh.SampleKind.PUT:
            self._link_ended(name, f"{link.src} {link.dst}")
            return
        if not self._came_in(link.src):
            self._refusals.made(name, f"{link.src} {link.dst}")
        if not self._guard.link_made(link) and name not in self._remote.devices:
            text = f"no neighbour of {self._device}: its messages are ignored"
            self._note(Refused(name or link.dst, text))

    def _came_in(self, src: str) -> bool:
        """Whether a link was made by its other end: its end here is a port that this device listens on.

        Whoever holds an old certificate of a neighbour could make and end such links at will, and so have
        the neighbour not called and the links of all others begin anew.
        """
        return src.rpartition(":")[2] in {str(endpoint.port) for endpoint in self._listen}

    def _link_ended(self, device: str, link: str) -> None:
        """Count a link that was ended at once; of a device that goes on to do so, say it."""
        pause = self._refusals.ended(device, link)
        if pause and device in self._calling:
            self._wake.set()
            text = (
                f"{device} ends every link at once, as with a device that is denied; it is called again "
                f"in {pause:.0f} s. Its log says why"
            )
            self._note(Refused(device, text))

    def handshake_refused(self, reason: str, end: int | None = None) -> None:
        """Report a handshake that TLS refused: by whom, as far as that can be known.

        Parameters
        ----------
        reason : str
            Why.
        end : int, optional
            When the certificate that was shown expired: one that was proved before is known by it.
        """
        linked = {link.auth_identifier for link in self._guard.links()}
        named = [device for device, known in self._ends.items() if end is not None and known == end]
        absent = sorted(self._remote.devices - linked)
        who = named[0] if named else "unknown"
        shown = ", ".join(absent[:MOST_SHOWN]) + (", ..." if len(absent) > MOST_SHOWN else "")
        guess = "" if named or not absent else f" (without a link now: {shown})"
        self._note(Refused(who, f"a handshake of {who} was refused{guess}: {reason}"))

    def _probe(self) -> None:
        """Report from time to time why a link is missing, once for each reason."""
        reported: dict[str, str] = {}
        pause = FIRST_PROBE
        while self._connect and not self._closed.wait(pause):
            pause = NEXT_PROBE
            linked = {link.auth_identifier for link in self._guard.links()}
            for device in (name for name in self._called() if name not in linked):
                assert self._credentials is not None
                reason = link_problem(device, self._connect[device], self._credentials)
                if reason and reason.startswith(NOT_ACCEPTED) and self._refusals.refused(device):
                    self._wake.set()
                if reason and reported.get(device) != reason:
                    reported[device] = reason
                    for agent, peer in self._remote.links:
                        if self._devices[peer] == device:
                            self._notify(agent, Refused(peer, f"no link to {device}: {reason}"))

    def _put(self, outlet: Outlet, data: bytes) -> None:
        """Send to a device; to one that may not hear it, the message is lost as on a link that is down."""
        made = self._guard.sealed(outlet.device, outlet.key, data)
        if made is not None:
            self._publish(outlet, *made)

    def _publish(self, outlet: Outlet, data: bytes, attachment: bytes | None = None) -> None:
        try:
            outlet.publisher.put(data, attachment=attachment)
        except Exception:
            # A session that is being closed, or was replaced since, sends no more.
            replaced = self._renewing or outlet.session is not self._session
            if not (self._closed.is_set() or replaced):
                raise

    def _note(self, arrival: Refused | TransportNotice) -> None:
        """Report what is about no agent in particular."""
        self._notify(next(iter(self._neighbours)), arrival)

    def _notify(self, agent: str, arrival: Arrival) -> None:
        with self._lock:
            if self._deliver is not None and not self._closed.is_set():
                self._deliver(agent, arrival)

    @cached_property
    def _remote(self) -> RemoteLinks:
        """The links over the network, of what was attached by now."""
        return RemoteLinks(self._neighbours, self._devices)


class RemoteLinks:
    """The links of a device's agents over the network: a table for each question."""

    def __init__(
        self, neighbours: Mapping[str, Collection[str]], devices: Mapping[str, str]
    ) -> None:
        """From the neighbours of each local agent, and the device of every agent."""
        self.links = [
            (agent, peer)
            for agent, peers in neighbours.items()
            for peer in peers
            if peer not in neighbours
        ]
        self.devices = frozenset(devices[peer] for _, peer in self.links)
        self.incoming = {(peer, agent): devices[peer] for agent, peer in self.links}
        self.listeners: dict[str, list[str]] = {}  # the local neighbours of each remote agent
        for agent, peer in self.links:
            self.listeners.setdefault(peer, []).append(agent)


def load_zenoh() -> Any:
    """The package, with its log as RUST_LOG asks and otherwise silent."""
    try:
        zenoh: Any = import_module("zenoh")
    except ImportError:  # pragma: no cover - the extra is installed where this is tested
        raise MissingExtraError(
            f"agents need the package eclipse-zenoh; install it with {install_command('agents')}"
        ) from None
    zenoh.try_init_log_from_env()
    return zenoh
