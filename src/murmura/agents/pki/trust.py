"""Whose certificate is accepted: the one decision for links, observers and pages.

A certificate counts if the fleet's authority signed it, it bears the name that is expected, the present
is within its validity (to the moment, not to the second), and the authority has not denied it.

The newest deny list that was ever accepted is kept on the site. A list with a smaller number never takes
its place, so that nobody who writes the file, or replays an old one, brings a revoked member back.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from murmura.agents.pki.certificates import common_name_on
from murmura.agents.pki.denied import DenyList
from murmura.errors import AgentError


class Trust:
    """What a site knows of the certificates of others.

    Parameters
    ----------
    ca : Path
        The authority's certificate.
    denied : Path, optional
        Where the authority's deny list is put; it need not be there yet.
    kept : Path, optional
        Where the newest list that was accepted is kept.
    wall : callable
        Seconds of the epoch.

    Attributes
    ----------
    denied : DenyList
        The newest list.
    notices : list of str
        What is to be said of the lists that were there at the start.

    Raises
    ------
    AgentError
        If there is a list that the authority has not signed, and none was accepted before.
    """

    def __init__(
        self,
        ca: Path,
        denied: Path | None = None,
        kept: Path | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Read the list that was kept, and the one that is there."""
        self.ca, self.file, self.kept, self.wall = ca, denied, kept, wall
        self.denied = DenyList()
        self._kept = 0  # the number of the list that is kept
        self._seen: bytes | None = None
        self.notices: list[str] = []  # of the start
        if kept is not None and kept.exists():
            try:
                self.denied = DenyList.read(kept, ca)
                self._kept = self.denied.number
            except AgentError as problem:
                self.notices.append(f"{problem}; it was the newest list here, and is left aside")
        if denied is not None and denied.exists():
            if not self.denied.number:
                self.denied = DenyList.read(denied, ca)
            self.notices += filter(None, [self.refresh()])

    def refresh(self) -> str:
        """Take a newer list, if there is one; what is to be said of it.

        Returns
        -------
        str
            Empty if the file is as it was.
        """
        try:
            data = b"" if self.file is None else self.file.read_bytes()
        except OSError:
            data = b""  # it may be brought later; what was accepted stays
        if data == self._seen:
            return ""
        first, self._seen = self._seen is None, data
        if not data:
            return ""
        assert self.file is not None
        try:
            found = DenyList.read(self.file, self.ca)
        except AgentError as problem:
            return f"{problem}; list {self.denied.number} stays in use"
        if found.number < self.denied.number or (
            found.number == self.denied.number and found.entries != self.denied.entries
        ):
            return (
                f"the deny list {self.file} has number {found.number}, and number "
                f"{self.denied.number} was accepted before: it is not used; fetch the newest from the "
                "authority"
            )
        if found.number == self.denied.number:
            return "" if first else f"deny list {found.number} is in use"
        self.denied = found
        return f"deny list {found.number} is in use: {len(found.entries)} entries"

    def keep(self) -> str:
        """Keep the newest list on the disk; what is to be said if that fails."""
        found = self.denied
        if self.kept is None or found.number <= self._kept:
            return ""
        try:
            found.write(self.kept)
        except OSError as problem:
            return (
                f"deny list {found.number} is in use, and cannot be kept in {self.kept}: "
                f"{problem.strerror}; after a restart an older one could take its place"
            )
        self._kept = found.number
        return ""

    def refusal(self, certificate: x509.Certificate, name: str) -> str:
        """Why a certificate is not accepted for a common name at this moment.

        Parameters
        ----------
        certificate : Certificate
            What was presented.
        name : str
            The common name that it must have.

        Returns
        -------
        str
            Empty if it is accepted.
        """
        found, now = common_name_on(certificate), dt.datetime.fromtimestamp(self.wall(), dt.UTC)
        shown = f"its certificate {certificate.serial_number:x}"
        if found != name:
            return f"{shown} is for {found!r}, expected {name!r}"
        try:
            certificate.verify_directly_issued_by(
                x509.load_pem_x509_certificate(self.ca.read_bytes())
            )
        except (OSError, ValueError, TypeError, InvalidSignature):
            return f"{shown} is of another authority"
        if now < certificate.not_valid_before_utc:
            return f"{shown} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
        if now >= certificate.not_valid_after_utc:
            return f"{shown} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
        return self.denied.about(name, certificate)

    def denied_name(self, name: str) -> str:
        """Why all certificates of a common name are denied; empty if they are not."""
        return self.denied.about(name)

    def must_prove(self, name: str) -> bool:
        """Whether a peer of this name has to say which of its certificates it uses."""
        return self.denied.singles_out(name)
