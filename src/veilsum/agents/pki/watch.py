"""Follows the key files of a site while it runs: certificate, private key, authority and deny list.

    files change --> they fit together, are valid --> `renewed`: links and listeners take the new ones
                 '-> they do not (yet)            --> a notice; the former certificate stays in use
    deny list    --> newer, signed by the authority --> `changed`: links of who is denied are closed
    a request    --> taken, once --> `unproved`: a neighbour went back to a version without proofs

Files are looked at once a second, by their contents: whatever replaces them (install, a volume, a
configuration tool) need not tell the agent. Of an end that comes closer the log hears when a third of the
validity or 14 days are left, and each time what is left has halved.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography import x509

from veilsum.agents.pki.certificates import SOON, Credentials, check_credentials
from veilsum.agents.pki.trust import Trust
from veilsum.agents.pki.unproved import take
from veilsum.agents.roles import Role, common_name_of
from veilsum.errors import AgentError

PAUSE = 1.0  # seconds between two looks
WARNED, RENEWED, DENIED = "certificate", "renewed", "denied"  # kinds of log lines
LAST_WARNING = 60.0  # seconds before the end; then the end itself

Notify = Callable[[str, str], None]  # kind of a log line, and its text


class KeyWatch:
    """The key files of one device, and whom it trusts.

    Parameters
    ----------
    credentials : Credentials
        Its three files.
    device : str
        The name on its certificate.
    role : Role
        Whether it is a member's, or an observer's.
    denied, kept : Path, or sequence of Path, optional
        The deny list, and where the newest one is kept (`Trust`).
    request : Path, optional
        Where the operator says which neighbour went back (`agents.pki.unproved`).
    wall : callable
        Seconds of the epoch.
    pause : float
        Seconds between two looks at the files.

    Attributes
    ----------
    trust : Trust
        Decides on the certificates of others.
    renewed, changed : list of callable
        Called when new files are in use, and when a newer deny list is; from the watch's thread.
    unproved : list of callable
        Called with the name of a device that the operator says went back.
    notify : callable
        Called with the kind of a log line and its text.
    """

    def __init__(
        self,
        credentials: Credentials,
        device: str,
        *,
        role: Role = Role.MEMBER,
        denied: Path | Sequence[Path] = (),
        kept: Path | None = None,
        request: Path | None = None,
        wall: Callable[[], float] = time.time,
        pause: float = PAUSE,
    ) -> None:
        """Nothing is followed yet."""
        self.credentials, self.device, self.role, self.wall = credentials, device, role, wall
        self.trust = Trust(credentials.ca, denied, kept, wall)
        self.renewed: list[Callable[[], None]] = []
        self.changed: list[Callable[[], None]] = []
        self.unproved: list[Callable[[str], None]] = []
        self._request = request
        self.notify: Notify = lambda _kind, _text: None
        self._pause = pause
        self._content = self._digest()
        self._doubt = ""  # why the files that are there now cannot be used
        self._warn_at: float | None = None  # seconds left at which the next warning is due
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def certificate(self) -> x509.Certificate:
        """The device's certificate, as it is in its file now."""
        return x509.load_pem_x509_certificate(self.credentials.certificate.read_bytes())

    def denied_itself(self) -> str:
        """Why the deny list has this device's own certificate; empty if it has not."""
        try:
            return self.trust.denied.about(common_name_of(self.device, self.role), self.certificate)
        except (OSError, ValueError):
            return ""  # of files that are being replaced

    def start(self) -> None:
        """Look at the files from time to time, in a thread of its own; may be called twice."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="veilsum-keys")
            self._thread.start()

    def close(self) -> None:
        """Look no more; may be called twice."""
        self._closed.set()

    def _run(self) -> None:
        for text in self.trust.notices:
            self.notify(DENIED, text)
        self.poll()
        while not self._closed.wait(self._pause):
            self.poll()

    def poll(self) -> None:
        """Look at the files once."""
        with self._lock:
            self._look_at_keys()
            self._look_at_list()
            self._look_at_request()
            self._warn()

    def _look_at_keys(self) -> None:
        content = self._digest()
        if content == self._content:
            self._doubt = ""
            return
        try:
            check_credentials(
                self.credentials,
                self.device,
                dt.datetime.fromtimestamp(self.wall(), dt.UTC),
                role=self.role,
            )
            found = self.certificate
        except (AgentError, OSError, ValueError) as problem:  # they may be replaced once more
            self._doubted(str(problem))
            return
        self._content, self._doubt, self._warn_at = content, "", None
        self.notify(
            RENEWED,
            f"certificate {found.serial_number:x} is in use, valid until "
            f"{found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
        )
        for call in self.renewed:
            self._call(call)

    def _call(self, call: Callable[[], None]) -> None:
        """Hand new files over; where that fails, at the next look once more: the watch goes on."""
        try:
            call()
        except (AgentError, OSError, ValueError) as problem:
            self._content = b""
            self.notify(WARNED, f"new key files cannot be used yet: {problem}; it is tried again")

    def _doubted(self, reason: str) -> None:
        """Say once why new files are not used; the first time may be between two of them."""
        if reason == self._doubt:
            self.notify(WARNED, f"new key files cannot be used, the former stay in use: {reason}")
            self._doubt = f"said: {reason}"
        elif self._doubt != f"said: {reason}":
            self._doubt = reason

    def _look_at_list(self) -> None:
        before = self.trust.denied.number
        for text in (*self.trust.refresh(), self.trust.keep()):
            if text:
                self.notify(DENIED, text)
        if self.trust.denied.number != before:
            for call in self.changed:
                call()

    def _look_at_request(self) -> None:
        devices = take(self._request)
        if devices == []:
            text = f"{self._request} names no neighbour and was removed; `veilsum keys unproved` writes it"
            self.notify(WARNED, text)
        for device in devices or ():
            for call in self.unproved:
                call(device)

    def _warn(self) -> None:
        """Say that the certificate ends, each time what is left of it has halved."""
        try:
            found = self.certificate
        except (OSError, ValueError):
            return  # reported with the files
        begin, end = found.not_valid_before_utc, found.not_valid_after_utc
        left = end.timestamp() - self.wall()
        if self._warn_at is None:
            self._warn_at = min(SOON, (end - begin) / 3).total_seconds()
            denied = self.trust.refusal(found, common_name_of(self.device, self.role))
            if denied and left > 0:
                self.notify(WARNED, f"others will refuse this site: {denied}")
        if self._warn_at < 0 or left > self._warn_at:
            return
        self._warn_at = -1.0 if left <= 0 else max(left / 2, 0.0)
        if 0 < self._warn_at < LAST_WARNING / 2:
            self._warn_at = 0.0
        when = f"{end:%Y-%m-%d %H:%M:%S} UTC"
        said = f"expires in {_duration(left)}, at {when}" if left > 0 else f"expired at {when}"
        self.notify(
            WARNED,
            f"the certificate of {self.device} {said}; have the authority sign the request once more, "
            f"and `veilsum keys install {self.device}`: a running agent takes the new one",
        )

    def _digest(self) -> bytes:
        """Of the contents of the three files; of those that cannot be read, nothing."""
        made = hashlib.sha256()
        for file in self.credentials:
            with suppress(OSError):
                made.update(file.read_bytes())
            made.update(b"\0")
        return made.digest()


def _duration(seconds: float) -> str:
    """A time in words: days, hours, minutes or seconds."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
