"""The server of a page: in a thread of its own, so that no reader can hold an agent up.

    /          and whatever else the routes of the page answer
    /events    text/event-stream: the snapshot, then each event; a beat every `BEAT` seconds
    /static/*  the files of this package's folder of that name, read once

At most `MOST_STREAMS` streams are open at once; a further one is asked to come back later. A reader
that takes nothing is disconnected by the operating system after `STALLED` seconds.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from veilsum._extras import install_command
from veilsum.errors import AgentError, MissingExtraError
from veilsum.live.hub import Hub
from veilsum.live.security import (
    EXPIRES,
    READER,
    SHOWN,
    App,
    PageAddress,
    PageGuard,
    PageTls,
    Receive,
    Scope,
    Send,
    allowed_hosts,
    answer,
    bracketed,
    check_address,
    expiry_of,
    name_on,
    seconds_left,
)

try:
    import uvicorn
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtraError(
        "a live page needs starlette, uvicorn and jinja2; install them with "
        f"{install_command('live')}"
    ) from None

BEAT = 10.0  # seconds between signs that the server is there
STALLED = 60.0  # seconds without taking anything after which a reader is disconnected
MOST_STREAMS = 64
SEND_BUFFER = 1 << 17  # bytes that the system holds for a reader that takes nothing
MOST_CONNECTIONS = MOST_STREAMS + 32
REVIEW = 1.0  # seconds between two looks at a reader's certificate
START, END = 10.0, 3.0  # seconds to wait for the thread
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

Beat = Callable[[], dict[str, Any]]
Guard = Callable[[App, frozenset[str], PageTls | None], PageGuard]


class PageServer:
    """Serves one page and the events of its hub.

    Parameters
    ----------
    routes : sequence of Route
        Of the page: "/" and what is beside it.
    hub : Hub
        What /events sends; it is closed with the server.
    address : PageAddress
        Where to listen.
    tls : PageTls, optional
        Needed beyond loopback; who opens the page must then show a certificate.
    beat : callable, optional
        What a beat says, called in the server's thread: it must not wait.
    guard : callable, optional
        Makes what stands before the page, of its app, hosts and tls.

    Attributes
    ----------
    on_problem : callable or None
        Called with a text, in the server's thread, if the server fails after it has started.

    Raises
    ------
    AgentError
        If others could open the page without a certificate.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> page = page_route("/", "base.html", title="north", subtitle="an agent")
    >>> server = PageServer([page], Hub(), PageAddress("127.0.0.1", 0))
    >>> url = server.start()
    >>> with urlopen(url) as found:
    ...     found.status, "<title>north</title>" in found.read().decode()
    (200, True)
    >>> server.close()
    """

    def __init__(
        self,
        routes: Sequence[Route],
        hub: Hub,
        address: PageAddress,
        tls: PageTls | None = None,
        *,
        beat: Beat = dict,
        guard: Guard = PageGuard,
    ) -> None:
        """Nothing is served yet."""
        check_address(address, tls)
        self.hub, self.address, self.tls, self._guard = hub, address, tls, guard
        self._stream = EventStream(hub, beat, (lambda _: "") if tls is None else tls.refusal)
        self._routes = [*routes, Route("/events", self._stream), *_static_routes()]
        self.on_problem: Callable[[str], None] | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._listening: socket.socket | None = None

    def start(self) -> str:
        """Begin to serve.

        Returns
        -------
        str
            The address of the page, for a browser.

        Raises
        ------
        AgentError
            If the port is taken, or the certificate cannot be used.
        """
        self._listening = _listen(self.address)
        port = int(self._listening.getsockname()[1])
        scheme = "http" if self.tls is None else "https"
        hosts = allowed_hosts(self.address, port, self.tls)
        app = self._guard(Starlette(routes=self._routes), hosts, self.tls)
        try:
            self._server = EndingServer(_configuration(app, self.tls))
        except (OSError, ValueError) as problem:
            self._listening.close()
            raise AgentError(
                f"cannot serve the page at {self.address}: {problem}; check the files of [keys]"
            ) from None
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        self._thread.start()
        if self.tls is not None and self.tls.watch is not None:
            self.tls.watch.renewed.append(self._renew)
        for _ in range(int(START / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            self._thread.join(0.01)
        if not self._server.started:
            self.close()
            raise AgentError(f"cannot serve the page at {self.address}: the server did not start")
        wild = self.address.host in ("0.0.0.0", "::")
        name = self.tls.hosts[0] if wild and self.tls is not None else self.address.host
        return f"{scheme}://{bracketed(name)}:{port}/"

    def _renew(self) -> None:
        """Show the new certificate to those who connect from now on."""
        context = None if self._server is None else self._server.config.ssl
        if context is not None and self.tls is not None:
            context.load_cert_chain(str(self.tls.certificate), str(self.tls.key))

    def close(self) -> None:
        """End every stream and stop; takes at most a few seconds, and may be called twice."""
        self.hub.close()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(END)
        if self._listening is not None:
            self._listening.close()

    def _run(self) -> None:
        assert self._server is not None
        assert self._listening is not None
        try:
            self._server.run(sockets=[self._listening])
        except BaseException as problem:  # whatever it is, the agent goes on
            if self.on_problem is not None:
                self.on_problem(f"the page is no longer served: {problem!r}")


class EventStream:
    """Answers /events.

    Parameters
    ----------
    hub : Hub
        Whose events are sent.
    beat : callable
        What a beat says.
    refusal : callable
        Why the certificate of a reader is not accepted any more; empty if it is.

    Attributes
    ----------
    open : int
        Streams at this moment.
    """

    def __init__(
        self, hub: Hub, beat: Beat, refusal: Callable[[Scope], str] = lambda _: ""
    ) -> None:
        """Nobody reads yet."""
        self._hub, self._beat, self._refusal, self.open = hub, beat, refusal, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the reader goes, its certificate expires or the hub closes."""
        if self.open >= MOST_STREAMS:
            text = f"{MOST_STREAMS} readers are connected already; try again later\n"
            await answer(send, 503, text, {"retry-after": "10"})
            return
        self.open += 1  # before anything is awaited: no other stream comes in between
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            sending, gone = (
                asyncio.ensure_future(self._send(send)),
                asyncio.ensure_future(_gone(receive)),
            )
            ended: set[Any] = set()
            while not ended and (valid := seconds_left(scope)) > 0 and not self._refusal(scope):
                ended, _ = await asyncio.wait(
                    {sending, gone},
                    timeout=None if math.isinf(valid) else min(valid, REVIEW),
                    return_when=asyncio.FIRST_COMPLETED,
                )
            for task in {sending, gone} - ended:
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
        finally:
            self.open -= 1

    async def _send(self, send: Send) -> None:
        async def chunk(content: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": content, "more_body": more})

        with self._hub.subscribe() as subscription:
            await chunk(b"retry: 2000\n\n")
            event = await subscription.next(BEAT)
            if event is not None:  # the snapshot, and how late it is
                await chunk(event.encode())
                event = None
            while event is not None or not self._hub.closed:
                await chunk(self._said() if event is None else event.encode())
                event = await subscription.next(BEAT)
            await chunk(b"event: end\ndata: {}\n\n", more=False)

    def _said(self) -> bytes:
        text = json.dumps(self._beat(), allow_nan=False, ensure_ascii=False)
        return f": beat\nevent: beat\ndata: {text}\n\n".encode()


class EndingServer(uvicorn.Server):
    """A server whose end no reader delays: what it has not taken by then is dropped."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As of uvicorn, and then abort the connections that are still there."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)


class NamedReader(H11Protocol):
    """A connection that knows the name on its reader's certificate, and when that expires."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note both for `PageGuard` and `EventStream`."""
        super().connection_made(transport)
        shown, link = transport.get_extra_info("peercert"), transport.get_extra_info("ssl_object")
        der = None if link is None else link.getpeercert(binary_form=True)
        found = {READER: name_on(shown), EXPIRES: expiry_of(shown), SHOWN: der}
        self.app_state = {**self.app_state, **found}


async def _gone(receive: Receive) -> None:
    """Until the reader has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def page_route(path: str, template: str, **context: Any) -> Route:
    """A route that answers with a template of this package, rendered once.

    Parameters
    ----------
    path : str
        Such as "/".
    template : str
        A file of the folder templates.
    context : dict
        What the template needs; escaped.

    Returns
    -------
    Route
        For `PageServer`.
    """
    text = _templates().get_template(template).render(**context)

    async def page(_: Request) -> Response:
        return HTMLResponse(text)

    return Route(path, page)


def answer_route(path: str, made: Callable[[], tuple[int, str, bytes]]) -> Route:
    """A route that answers with what a function makes.

    Parameters
    ----------
    path : str
        Such as "/healthz".
    made : callable
        Gives status, type of the content, and content; it must not wait.

    Returns
    -------
    Route
        For `PageServer`.
    """

    async def answering(_: Request) -> Response:
        status, kind, content = made()
        return Response(content, status, {"content-type": kind})

    return Route(path, answering)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("veilsum.live"), autoescape=True, undefined=StrictUndefined
    )


def _static_routes() -> list[Route]:
    found = []
    for file in files("veilsum.live").joinpath("static").iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in TYPES:
            found.append(_static_route(file.name, file.read_bytes(), TYPES[suffix]))
    return found


def _static_route(name: str, content: bytes, kind: str) -> Route:
    async def static(_: Request) -> Response:
        return Response(content, headers={"content-type": kind})

    return Route(f"/static/{name}", static)


def _listen(address: PageAddress) -> socket.socket:
    """A socket that listens; AgentError if the address cannot be had."""
    host = "127.0.0.1" if address.host == "localhost" else address.host
    made = None
    try:
        family, kind, *_, place = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # of connections too
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STALLED * 1000))
        made.bind(place)
        made.listen(MOST_CONNECTIONS)
    except OSError as problem:
        if made is not None:
            made.close()
        raise AgentError(
            f"cannot serve the page at {address}: {problem.strerror}; choose another --page"
        ) from None
    return made


def _configuration(app: Any, tls: PageTls | None) -> uvicorn.Config:
    """Of the server: no log of requests, bounded, and quick to end; the certificate is loaded."""
    import ssl

    more: dict[str, Any] = {}
    if tls is not None:
        more = {
            "ssl_certfile": str(tls.certificate),
            "ssl_keyfile": str(tls.key),
            "ssl_ca_certs": str(tls.ca),
            "ssl_cert_reqs": ssl.CERT_REQUIRED,
        }
    made = uvicorn.Config(
        app, http=NamedReader, ws="none", loop="asyncio", lifespan="off", interface="asgi3",
        log_config=None, log_level="critical", access_log=False, server_header=False,
        proxy_headers=False, limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=15,
        timeout_graceful_shutdown=1, **more,
    )  # fmt: skip
    made.load()
    if made.ssl is not None:
        made.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return made
