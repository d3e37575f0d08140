"""A JSON document behind an address, asked for when a slot is due.

urllib of Python is used, not a library: one GET without redirects needs no more. Redirects and proxies are
refused, so that a token is sent to the host that is named and to no other.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from veilsum.errors import FleetError
from veilsum.fleet.sources.base import SourceBusyError, secret
from veilsum.fleet.sources.current import LARGEST, CurrentSource

CHUNK = 65_536
OK = 200


@dataclass(frozen=True, kw_only=True)
class HttpSource(CurrentSource):
    """What an address answers."""

    name = "http"

    url: str  # "{start}" and "{end}" in it are the times of the slot
    token_env: str = ""  # variable with a token, sent as `Authorization: Bearer`
    ca: Path = Path()  # authority for TLS; the system's without it

    def __post_init__(self) -> None:
        """Check the address."""
        super().__post_init__()
        try:
            found = urlsplit(self.url)
            found.port  # noqa: B018 - raises
        except ValueError:
            found = urlsplit("")
        if found.scheme not in ("http", "https") or not found.hostname:
            raise FleetError(
                '[data] of source http needs url, an address such as "https://host/path"'
            )
        if found.username or found.password:
            raise FleetError(
                "[data] url must have no user and no password: put a token into an environment variable, and "
                'name that with token_env = "METER_TOKEN"'
            )

    @property
    def where(self) -> str:
        """The host."""
        return f"the HTTP server {urlsplit(self.url).netloc}"

    def _sent(self) -> Sequence[str]:
        return (self.url,)

    def _fetch(self, sent: Sequence[str]) -> bytes:
        request = urllib.request.Request(sent[0], headers={"Accept": "application/json"})
        token = secret(self.token_env, "token_env")
        if token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with self._opener().open(request, timeout=self._seconds) as answer:
                return self._read(answer)
        except urllib.error.HTTPError as problem:
            problem.close()
            raise self._busy(f"answers with status {problem.code}") from None
        except (OSError, http.client.HTTPException) as problem:
            cause = getattr(problem, "reason", problem)
            name = type(cause).__name__ if isinstance(cause, Exception) else "URLError"
            raise self._busy(f"cannot be read ({name})") from None

    def _read(self, answer: Any) -> bytes:
        """The answer, complete and within the limits of size and time."""
        end, data = time.monotonic() + self._seconds, b""
        if answer.status != OK:
            raise self._busy(f"answers with status {answer.status}")
        while chunk := answer.read1(CHUNK):
            data += chunk
            if len(data) > LARGEST:
                raise self._busy(f"answers with more than {LARGEST} bytes")
            if time.monotonic() > end:
                raise TimeoutError
        if answer.length:
            raise self._busy("broke off its answer")
        return data

    def _opener(self) -> urllib.request.OpenerDirector:
        try:
            context = ssl.create_default_context(cafile=self.ca if self.ca.name else None)
        except OSError as problem:
            raise FleetError(f"cannot read the authority {self.ca}: {problem.strerror}") from None
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=context),
            _RefusesRedirects,
        )

    def _busy(self, what: str) -> SourceBusyError:
        return SourceBusyError(f"{self.where} {what}; it is asked again with the next step")


class _RefusesRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the status is reported."""
