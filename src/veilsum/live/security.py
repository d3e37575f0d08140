"""Where a page may be served and to whom, and what every answer says to the browser.

On loopback anyone who is logged in on this machine may read the page. Beyond it, only over TLS of
the fleet's authority, and only those who show a certificate of it. On both, a request must name this
server as its host: otherwise a page of another origin could have its own name resolved to this
address and read the answers (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from veilsum._validate import HOST_AND_PORT
from veilsum.errors import AgentError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("GET", "HEAD")
READER = "veilsum.reader"  # the name on a reader's certificate, in the state of a request
SHOWN = "veilsum.certificate"  # that certificate itself, as DER
EXPIRES = "veilsum.expires"  # when that certificate expires, in seconds of the epoch


@dataclass(frozen=True)
class PageAddress:
    """Where a page is served.

    Parameters
    ----------
    host : str
        A name or an address, without brackets.
    port : int
        0 takes any free one.

    Examples
    --------
    >>> address = PageAddress("::1", 8080)
    >>> str(address), address.is_loopback
    ('[::1]:8080', True)
    """

    host: str
    port: int

    def __str__(self) -> str:
        """As a browser writes it."""
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> PageAddress:
    """Read an address such as 127.0.0.1:8080.

    Parameters
    ----------
    text : str
        Host and port; an IPv6 address in brackets.

    Returns
    -------
    PageAddress
        Host and port.

    Raises
    ------
    AgentError
        If it is no host with a port.

    Examples
    --------
    >>> parse_address("127.0.0.1:8080")
    PageAddress(host='127.0.0.1', port=8080)
    """
    found = HOST_AND_PORT.fullmatch(text.strip())
    if found is None or int(found[2]) > 65535:
        raise AgentError(
            f"{text!r} is no address of a page; expected a host and a port, such as 127.0.0.1:8080 "
            "or [::1]:8080"
        )
    return PageAddress(found[1].strip("[]"), int(found[2]))


@dataclass(frozen=True)
class PageTls:
    """With what a page is served beyond loopback; whoever opens it must show a certificate.

    Parameters
    ----------
    certificate, key : Path
        Of this site, in PEM.
    ca : Path
        The certificate of the fleet's authority: it signs those of readers too.
    hosts : tuple of str
        Names and addresses on the certificate, by which browsers may ask for the page.
    readers : frozenset of str
        Common names of those who may open it; the authority's word alone is not enough, because a
        name that is removed from the fleet still has its certificate.
    watch : KeyWatch, optional
        Follows the site's certificate, and knows which of the readers' are denied.
    """

    certificate: Path
    key: Path
    ca: Path
    hosts: tuple[str, ...]
    readers: frozenset[str]
    watch: Any = None

    @classmethod
    def of(cls, credentials: Any, readers: Iterable[str], watch: Any = None) -> PageTls:
        """From the files of a member of the fleet.

        Parameters
        ----------
        credentials : Credentials
            Its certificate, key and authority.
        readers : iterable of str
            Common names of those who may open the page.
        watch : KeyWatch, optional
            As for `PageTls`.

        Returns
        -------
        PageTls
            With the hosts of the certificate.
        """
        from veilsum.agents.pki import describe

        certificate, key, ca = credentials.certificate, credentials.key, credentials.ca
        return cls(certificate, key, ca, describe(credentials).hosts, frozenset(readers), watch)

    def refusal(self, scope: Scope) -> str:
        """Why the certificate of who asks is not accepted any more; empty if it is."""
        shown = scope.get("state", {}).get(SHOWN)
        if self.watch is None or not shown:
            return ""
        from cryptography import x509

        found = x509.load_der_x509_certificate(shown)
        return str(self.watch.trust.refusal(found, scope["state"][READER]))


def check_address(address: PageAddress, tls: PageTls | None) -> None:
    """Raise `AgentError` if others could read the page without a certificate.

    Parameters
    ----------
    address : PageAddress
        Where it is to be served.
    tls : PageTls or None
        With what.

    Raises
    ------
    AgentError
        Beyond loopback without TLS, or with a certificate that has no host.
    """
    if address.is_loopback:
        return
    if tls is None:
        raise AgentError(
            f"a page at {address} could be opened from other machines: beyond loopback it needs "
            "certificates of the fleet's authority ([keys] in agent.toml, without --insecure), and "
            f"so does whoever opens it; or serve it on 127.0.0.1:{address.port}"
        )
    if not tls.hosts:
        raise AgentError(
            f"{tls.certificate} names no host, so no browser would accept a page at {address}; "
            "issue it with the host or address of this site (--host)"
        )


def allowed_hosts(address: PageAddress, port: int, tls: PageTls | None) -> frozenset[str]:
    """The Host headers that a request may have: names of this server, with its port.

    Parameters
    ----------
    address : PageAddress
        Where it is served.
    port : int
        The port, where the address leaves it open.
    tls : PageTls or None
        The names on its certificate count too.

    Returns
    -------
    frozenset of str
        In lower case, with the port, and without where it is the usual one.
    """
    names = [*LOOPBACK, *(() if tls is None else map(bracketed, tls.hosts))]
    if address.is_loopback:
        names.append(bracketed(address.host))
    usual = 80 if tls is None else 443
    found = {f"{name.lower()}:{port}" for name in names}
    return frozenset(found | ({name.lower() for name in names} if port == usual else set()))


def bracketed(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


class PageGuard:
    """Stands before a page: refuses what does not come from this origin, and adds the headers.

    Parameters
    ----------
    app : callable
        What answers the requests that are let through (ASGI).
    hosts : frozenset of str
        As of `allowed_hosts`.
    tls : PageTls or None
        Who may read; None where no certificate is asked for.
    """

    methods: ClassVar[tuple[str, ...]] = METHODS

    def __init__(self, app: App, hosts: frozenset[str], tls: PageTls | None) -> None:
        """Nothing is asked yet."""
        self._app, self._hosts, self._tls = app, hosts, tls
        self._readers = None if tls is None else tls.readers
        self._scheme = "http" if tls is None else "https"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        refused = self.refusal(scope)
        if refused is not None:
            status, text = refused
            allow = {"allow": ", ".join(self.methods)} if status == 405 else {}
            await answer(send, status, text + "\n", allow)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                kept = [item for item in message["headers"] if item[0].decode() not in HEADERS]
                message = {**message, "headers": [*kept, *_encoded(HEADERS)]}
            await send(message)

        await self._app(scope, receive, guarded)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason, for a request that is not answered."""
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if scope["method"] not in self.methods:
            return 405, f"this page answers {', '.join(self.methods)}"
        if host not in self._hosts:
            return (
                421,
                "this is not the host of the request; open the page by the address it printed",
            )
        if self._readers is not None and scope.get("state", {}).get(READER) not in self._readers:
            return 403, "the name on your certificate may not read this page: see [observers] allow"
        if seconds_left(scope) <= 0:
            return 403, "your certificate has expired: renew it"
        refused = "" if self._tls is None else self._tls.refusal(scope)
        if refused:
            return 403, f"your certificate is not accepted: {refused}"
        if origin is not None and origin.lower() != f"{self._scheme}://{host}":
            return 403, "requests from other origins are not answered"
        elsewhere = headers.get("sec-fetch-site", "same-origin") in ("cross-site", "same-site")
        if elsewhere and headers.get("sec-fetch-mode") != "navigate":
            return 403, "requests from other sites are not answered"
        return None


def name_on(certificate: Mapping[str, Any] | None) -> str:
    """The common name on a certificate that TLS has verified; empty without exactly one.

    Parameters
    ----------
    certificate : mapping or None
        As `ssl.SSLSocket.getpeercert` has it.

    Returns
    -------
    str
        The name.
    """
    parts = [part for group in (certificate or {}).get("subject", ()) for part in group]
    names = [value for key, value in parts if key == "commonName"]
    return names[0] if len(names) == 1 else ""


def expiry_of(certificate: Mapping[str, Any] | None) -> float:
    """When a certificate that TLS has verified expires, in seconds of the epoch; never without one.

    Parameters
    ----------
    certificate : mapping or None
        As `ssl.SSLSocket.getpeercert` has it.

    Returns
    -------
    float
        Infinite without a certificate.
    """
    import ssl

    until = (certificate or {}).get("notAfter")
    return math.inf if until is None else float(ssl.cert_time_to_seconds(str(until)))


def seconds_left(scope: Scope) -> float:
    """For how long the certificate of who asks is valid: TLS looks at it in the handshake only."""
    return float(scope.get("state", {}).get(EXPIRES, math.inf)) - time.time()


async def answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    """A short answer in plain text, with the headers of every answer."""
    content = text.encode()
    given = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(content))}
    everything = _encoded(given | (headers or {}) | HEADERS)
    await send({"type": "http.response.start", "status": status, "headers": everything})
    await send({"type": "http.response.body", "body": content})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
