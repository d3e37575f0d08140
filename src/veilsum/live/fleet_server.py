"""Serves a fleet page: its hub, its data and its routes in one object."""

from __future__ import annotations

from starlette.routing import Route

from veilsum.live.fleet import FleetPage, FleetTerms, fold
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress, PageTls
from veilsum.live.server import PageServer, page_route


class FleetServer:
    """The page of a fleet, served from `start` to `close`.

    Parameters
    ----------
    terms : FleetTerms
        Of the fleet.
    address : PageAddress
        Where to serve it.
    tls : PageTls, optional
        Needed beyond loopback.

    Attributes
    ----------
    page : FleetPage
        Takes the statuses.

    Examples
    --------
    >>> terms = FleetTerms(("a", "b"), ((0, 1),), ((0.0, 0.5), (1.0, 0.5)), (0.0, 1.0), "", "", 9)
    >>> server = FleetServer(terms, PageAddress("127.0.0.1", 0))
    >>> server.start().startswith("http://127.0.0.1:")
    True
    >>> server.page.update("a", {"state": "running"}, at=0.0)
    >>> server.close()
    """

    def __init__(self, terms: FleetTerms, address: PageAddress, tls: PageTls | None = None) -> None:
        """Nothing is served yet."""
        hub = Hub(apply=fold)
        self.page = FleetPage(hub, terms)
        self._server = PageServer(fleet_routes(terms), hub, address, tls)

    def start(self) -> str:
        """Begin to serve; returns the address for a browser."""
        return self._server.start()

    def close(self) -> None:
        """Publish what is left, and stop."""
        self.page.close()
        self._server.close()


def fleet_routes(terms: FleetTerms) -> list[Route]:
    """The page itself, for `PageServer`.

    Parameters
    ----------
    terms : FleetTerms
        Its name and title; all else comes by events.
    """
    subtitle = terms.title or f"{terms.size} sites"
    return [page_route("/", "fleet.html", title=terms.name, subtitle=subtitle)]
