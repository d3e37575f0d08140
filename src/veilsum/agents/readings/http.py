"""A JSON document behind an address, asked for from time to time.

urllib of Python is used, not a library: one GET without redirects needs no more, and an agent has
fewer packages to keep up to date. Redirects are refused, so that a token is sent to the named host
only; so are proxies.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from veilsum import _validate
from veilsum.agents.readings import arguments
from veilsum.agents.readings.base import Pauses
from veilsum.agents.readings.polled import (
    Fields,
    Item,
    PolledReadings,
    UnavailableError,
    parsed,
    pointed,
)
from veilsum.errors import AgentError, SignalError

CHUNK = 65536
LARGEST = 1_000_000  # bytes of an answer
OK = 200


class HttpReadings(PolledReadings):
    """The readings in a JSON document: one, or a list of them.

    Readings that the document no longer shows when it is asked for were never seen: let it hold the
    last ones, and ask more often than they leave it.

    Parameters
    ----------
    url : str
        `https://host/path`, or `http://` without TLS.
    key : str or sequence of str
        The field that identifies a reading: a name, or a JSON pointer.
    columns : str or sequence of str
        The fields with the values.
    items : str, optional
        JSON pointer to a list of readings; the document is one reading, or a list, by default.
    token : str, optional
        Sent as `Authorization: Bearer`.
    ca : str, optional
        File of the authority for TLS; the system's by default.
    time : str, optional
        The field with the time of a reading.
    interval : float or str
        Seconds between two requests, or a time such as "10m".
    timeout : float or str
        Seconds for one request.
    largest : int
        Bytes of an answer.
    pauses : Pauses, optional
        How long to wait after failures.
    connect : bool
        Whether to begin at once; otherwise only the arguments are checked.

    Raises
    ------
    AgentError
        If the address cannot be used, or another argument means nothing.

    Examples
    --------
    >>> readings = HttpReadings("https://meter.example/load", "time", "kwh", connect=False)
    >>> readings.naming
    'http key time'
    >>> readings.close()
    """

    def __init__(
        self,
        url: str,
        key: str | Sequence[str],
        columns: str | Sequence[str],
        *,
        items: str = "",
        token: str | None = None,
        ca: str | None = None,
        time: str | None = None,
        interval: float | str = 10.0,
        timeout: float | str = 10.0,
        largest: int = LARGEST,
        pauses: Pauses | None = None,
        connect: bool = True,
    ) -> None:
        """Begin to ask, in a thread of its own."""
        host = _host(arguments.text("http", url, 'an address such as "https://host/path"'))
        arguments.texts(items=items or None, token=token, ca=ca)
        _validate.at_least(AgentError, 1, largest=largest)
        self._fields = Fields(columns, key, time)
        if not self._fields.columns:
            raise AgentError("an HTTP source needs at least one field with values")
        self._timeout = arguments.seconds("timeout", timeout)
        super().__init__(f"http {self._fields.naming}", f"the HTTP server {host}", interval, pauses)
        self._items, self._largest = items, largest
        self._request = urllib.request.Request(url, headers={"Accept": "application/json"})
        if token is not None:
            self._request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as problem:
            raise AgentError(f"cannot read the authority {ca}: {problem.strerror}") from None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=context),
            _NoRedirects,
        )
        self._answers = 0
        self._recent: set[str] = set()  # keys of the last document
        if connect:
            self._start()

    def _fetch(self) -> Iterator[Item]:
        data = self._get()
        self._answers += 1
        where = f"answer {self._answers} of {self.where}"
        try:
            found = pointed(parsed(data, where), self._items, where)
        except SignalError as problem:
            raise UnavailableError(str(problem)) from None
        records = found if isinstance(found, list) else [found]
        seen: set[str] = set()
        for place, record in enumerate(records, 1):
            item = self._fields.item(record, f"{where}, reading {place}")
            named = item.key or f"\0{place}"  # a reading without a key is reported once in a row
            if named not in self._recent and named not in seen:
                yield item
            seen.add(named)
        self._recent = seen

    def _get(self) -> bytes:
        """The answer, complete and within the limits of size and time."""
        end = time.monotonic() + self._timeout
        try:
            with self._opener.open(self._request, timeout=self._timeout) as answer:
                if answer.status != OK:
                    raise UnavailableError(f"{self.where} answers with status {answer.status}")
                data = b""
                while chunk := answer.read1(CHUNK):
                    data += chunk
                    if len(data) > self._largest:
                        raise UnavailableError(
                            f"{self.where} answers with more than {self._largest} bytes"
                        )
                    if time.monotonic() > end:
                        raise TimeoutError
                if answer.length:
                    raise UnavailableError(f"{self.where} broke off its answer")
                return data
        except urllib.error.HTTPError as problem:
            problem.close()
            raise UnavailableError(f"{self.where} answers with status {problem.code}") from None
        except (OSError, http.client.HTTPException) as problem:
            cause = getattr(problem, "reason", problem)
            name = type(cause).__name__ if isinstance(cause, Exception) else "URLError"
            raise UnavailableError(f"{self.where} cannot be read ({name})") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the status is reported."""


def _host(url: str) -> str:
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        found, port = urlsplit(""), None
    if found.scheme not in ("http", "https") or not found.hostname:
        raise AgentError('http must be an address such as "https://host/path"')
    if found.username or found.password:
        raise AgentError("http must have no user or password; use password_file with a token")
    return f"{found.hostname}:{port}" if port else found.hostname
