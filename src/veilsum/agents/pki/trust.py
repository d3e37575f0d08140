"""Whose certificate is accepted: the one decision for links, observers and pages.

A certificate counts if the fleet's authority signed it, it bears the name that is expected, the present
is within its validity (to the moment, not to the second), and the authority has not denied it.

The newest deny list that was ever accepted is kept on the site. A list with a smaller number never takes
its place, so that nobody who writes the file, or replays an old one, brings a revoked member back.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from veilsum.agents.pki.certificates import common_name_on
from veilsum.agents.pki.denied import DenyList, content_of
from veilsum.errors import AgentError


class Trust:
    """What a site knows of the certificates of others.

    Parameters
    ----------
    ca : Path
        The authority's certificate.
    denied : Path or sequence of Path
        Where the authority's deny list may be put; it need not be there yet. The newest counts.
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
        denied: Path | Sequence[Path] = (),
        kept: Path | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Read the list that was kept, and those that are there."""
        files = [denied] if isinstance(denied, Path) else list(denied)
        self.ca, self.files, self.kept, self.wall = ca, files, kept, wall
        self.denied = DenyList()
        self._kept = 0  # the number of the list that is kept
        self._seen: dict[Path, bytes] = {}
        self.notices: list[str] = []  # of the start
        if kept is not None and kept.exists():
            try:
                self.denied = DenyList.read(kept, ca)
                self._kept = self.denied.number
            except AgentError as problem:
                self.notices.append(f"{problem}; it was the newest list here, and is left aside")
        there = [file for file in files if file.exists()]
        if there and not self.denied.number:
            self.denied = max(DenyList.read(file, ca) for file in there)
        self.notices += self.refresh()

    def refresh(self) -> list[str]:
        """Take a newer list, if there is one; what is to be said of those that have changed."""
        return [said for file in self.files if (said := self._look(file))]

    def _look(self, file: Path) -> str:
        data = content_of(file)  # none: it may be brought later; what was accepted stays
        before = self._seen.get(file)
        self._seen[file] = data
        if data == before or not data:
            return ""
        try:
            found = DenyList.read(file, self.ca)
        except AgentError as problem:
            number = self.denied.number
            return f"{problem}; {f'list {number} stays in use' if number else 'no list is in use'}"
        if found[:2] == self.denied[:2]:
            return "" if before is None else f"deny list {found.number} is in use"
        if found.number <= self.denied.number:
            return (
                f"the deny list {file} has number {found.number}, and number {self.denied.number} was "
                "accepted before: it is not used; fetch the newest from the authority"
            )
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
