"""Holds the devices of one session to their certificates: proofs come in, links are closed.

    token with a mark, proof --> Channels --> admitted: up, sealed messages
    end of a certificate, deny list, no proof --> refused: down, its links closed, a line in the log

Links in the name of a device that has to prove itself are closed if they have not within a few seconds,
and again as often as they come back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from veilsum.agents.transport.admission import Change, PeerAdmission
from veilsum.agents.transport.base import Refused, TransportNotice
from veilsum.agents.transport.channels import (
    MARK,
    MOST_PROOF,
    TAG,
    Channels,
    DeviceProof,
    ProofError,
)
from veilsum.agents.transport.sockets import close_connection
from veilsum.agents.transport.zenoh_config import source_of

UNPROVED = 5.0  # seconds in which a link has to be proved, where that is required


class LinkGuard:
    """Who may speak in one session.

    Parameters
    ----------
    session : zenoh session
        Whose links are closed.
    devices : collection of str
        The neighbours.
    admission : PeerAdmission
        Who is up.
    publish : callable
        Sends a proof to a device.
    announce, note : callable
        Called with who came up or went down, and with what is refused.
    """

    def __init__(
        self,
        session: Any,
        devices: Collection[str],
        admission: PeerAdmission,
        publish: Callable[[str, bytes], None],
        announce: Callable[[Sequence[Change]], None],
        note: Callable[[Refused | TransportNotice], None],
    ) -> None:
        """Nobody has proved anything."""
        self.admission, self._session, self._devices = admission, session, frozenset(devices)
        self._publish, self._announce, self._note = publish, announce, note
        self._waiting: dict[str, float] = {}  # since when a link waits for its proof
        self._turn = threading.RLock()  # what is announced is in the order of what has changed

    @property
    def channels(self) -> Channels | None:
        """None without certificates."""
        return self.admission.channels

    def opened(self, device: str, key: str, sample: Any, most: int) -> bytes:
        """What a device sent, as far as it may speak; raises `ProofError`."""
        channels, attached, size = self.channels, sample.attachment, len(sample.payload)
        if size > most + TAG * (attached is not None):
            raise ProofError(f"{size:,} bytes, at most {most:,} are accepted")
        if channels is None or (attached is None and self.admission.admits_plain(device)):
            return bytes(sample.payload)
        if attached is None:
            raise ProofError(f"{device} spoke without a proof: {channels.must_prove(device)}")
        return channels.open(device, key, bytes(sample.payload), bytes(attached))

    def sealed(self, device: str, key: str, data: bytes) -> tuple[bytes, bytes | None] | None:
        """What is sent to a device: sealed if it has proved itself; None if it may not hear it."""
        channels = self.channels
        if channels is None:
            return data, None
        made = channels.seal(device, key, data)
        if made is not None:
            return made
        return (data, None) if self.admission.hears_plain(device) else None

    def introduce(self, device: str) -> None:
        """Send a neighbour a proof of our certificate."""
        if self.channels is not None and device in self._devices:
            self._publish(device, self.channels.introduce(device))

    def receive(self, device: str, payload: Any) -> None:
        """A device proves its certificate, or is refused and its link closed."""
        channels = self.channels
        if channels is None or device not in self._devices:
            return
        data = bytes(payload) if len(payload) <= MOST_PROOF else b""
        with self._turn:
            try:
                found = channels.receive(device, data)
            except ProofError as problem:
                self._refuse_proof(channels, device, data, str(problem))
                return
            if found.answer:
                self.introduce(device)
            changes = self.admission.reopened if found.opened else self.admission.refresh
            self._announce(changes(device))

    def token(self, key: str, alive: bool) -> None:
        """A session of a remote agent began, or ended; one that proves itself is sent our proof."""
        with self._turn:
            if alive and key.endswith(MARK):
                self.introduce(source_of(key))
            self._announce(self.admission.token(key, alive))

    def leave(self) -> None:
        """The session ends: all who were up are down."""
        with self._turn:
            self._announce(self.admission.leave())

    def _refuse_proof(self, channels: Channels, device: str, data: bytes, reason: str) -> None:
        """Close the link that a proof names; not one that was proved, which another may have named."""
        session, open_one = DeviceProof.session_in(data), channels.channel(device)
        if session is None or (open_one is not None and open_one.session == session):
            session = ""
        self.refuse(device, reason, session)

    def refuse(self, device: str, reason: str, session: str | None = None) -> None:
        """Close the links of a device, or of one session of it, and say why."""
        found = []
        for link in self.links():
            if link.auth_identifier == device and session in (None, str(link.zid)):
                found.append(link.dst)
                close_connection(link.src, link.dst)
        where = f" at {', '.join(found)}" if found else ""
        self._note(Refused(device, f"{device}{where} is refused: {reason}"))

    def forget_proof(self, device: str) -> None:
        """The operator says that a device went back to a version without proofs: hear it, if it may be."""
        channels = self.channels
        if channels is None or device not in self._devices:
            return
        with self._turn:
            had = channels.forget_proof(device)
            why = channels.must_prove(device)
            self._announce(self.admission.refresh(device))
        text = "is heard without a proof of its certificate, until it proves one again"
        if not had:
            text = "has not proved its certificate to this process: nothing is to be forgotten"
        elif channels.channel(device) is not None:
            text = f"proves its certificate now; once it is gone, it {text}"
        elif why:
            text = f"is refused all the same: {why}"
        self._note(TransportNotice("unproved", f"{device} {text}"))

    def links(self) -> list[Any]:
        """The links of the session; none once it is closed."""
        try:
            return list(self._session.info.links())
        except Exception:  # zenoh's own, of a session that is closed
            return []

    def link_made(self, link: Any) -> str:
        """Why a new link is refused by its name; it is closed then."""
        name = link.auth_identifier or ""
        denied = "" if self.channels is None else self.channels.trust.denied_name(name)
        if denied:
            close_connection(link.src, link.dst)
            self._note(Refused(name, f"{name} at {link.dst} is refused: {denied}"))
        return denied

    def review(self) -> None:
        """Close what may no longer be open, and ask for the proofs that are missing."""
        channels = self.channels
        assert channels is not None, "there are certificates"
        with self._turn:
            closed = channels.review()
            for device in self._devices:
                self._announce(self.admission.refresh(device))
                if self.admission.proves(device) and channels.channel(device) is None:
                    self.introduce(device)
        for device, session, reason in closed:
            self.refuse(device, reason, session)
        self._hold_links(channels)

    def _hold_links(self, channels: Channels) -> None:
        """Close links in the name of a device that is denied, or has to prove itself and does not."""
        now, waiting = time.monotonic(), {}
        for link in self.links():
            device, session = link.auth_identifier, str(link.zid)
            if device not in self._devices or self.link_made(link):
                continue
            proved = channels.channel(device)
            why = channels.must_prove(device)
            if why and (proved is None or proved.session != session):
                waiting[link.dst] = self._waiting.get(link.dst, now)
                if now - waiting[link.dst] > UNPROVED:
                    self.refuse(device, why, session)
        self._waiting = waiting
