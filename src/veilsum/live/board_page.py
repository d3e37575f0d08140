"""The page of a fleet that shares a board: answers closing in, who is in, forks, epoch; on loopback alone.

    status (fleet.status) ── BoardHistory ── Hub ── /events ── static/board.js

The history of answers is that of the time for which the page is open; nothing is stored.
"""

from __future__ import annotations

import math
from typing import Any, Self

from veilsum.errors import FleetError
from veilsum.fleet.status import FleetStatus, FoundNumber
from veilsum.live.fleet_layout import place
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress
from veilsum.live.server import PageServer, page_route

MOST_POINTS = 400  # of a question's history
CIRCLE = 40  # sites that fit on one
GOLDEN = math.pi * (3 - math.sqrt(5))  # radians between two sites of a spiral


class BoardHistory:
    """The answers of each question since the page is open; thinned where it grows, its ends kept.

    >>> history = BoardHistory()
    >>> history.rows
    {}
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        """Nothing yet."""
        self.most = most
        self.rows: dict[str, list[list[float | None]]] = {}

    def take(self, status: FleetStatus) -> None:
        """Add the answers that are new: time, value, low, high, sites, and the newest slot's value."""
        for one in status.questions:
            found = one.answer
            if found is None or len(found.values) != 1:
                continue
            slot = None if one.latest is None else _first(one.latest.found)
            row = [status.at, found.values[0], found.low[0], found.high[0], one.inside, slot]
            rows = self.rows.setdefault(one.terms, [])
            if not rows or rows[-1][1:] != row[1:]:
                rows.append(row)
            if len(rows) > self.most:
                rows[1:-1] = rows[1:-1:2]


def _first(found: tuple[FoundNumber, ...]) -> float | None:
    return next((one.values[0] for one in found if not one.detail and len(one.values) == 1), None)


def places(status: FleetStatus) -> dict[str, list[float]]:
    """Where sites are drawn, by name: few on a circle, many on a spiral from the centre.

    There is no graph to draw: all of them share one board.
    """
    names = sorted(one.name for one in status.sites)
    if not names:
        return {}
    given = [_at(k, len(names)) for k in range(len(names))]
    return dict(zip(names, place(len(names), [], given=given), strict=True))


def _at(k: int, count: int) -> tuple[float, float]:
    if count <= CIRCLE:
        angle, radius = 2 * math.pi * k / count, 1.0
    else:
        angle, radius = GOLDEN * k, math.sqrt((k + 0.5) / count)
    return radius * math.sin(angle), radius * math.cos(angle)


class BoardServer:
    """Serves the page, for `with`.

    >>> with BoardServer(PageAddress("127.0.0.1", 0)) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, address: PageAddress) -> None:
        """Nothing is served yet."""
        if not address.is_loopback:
            raise FleetError(
                f"the page of a fleet is served on this machine only, such as 127.0.0.1:{address.port}; "
                f"found {address}. From another machine: ssh -L {address.port}:127.0.0.1:{address.port} HOST"
            )
        self._hub, self._history = Hub(), BoardHistory()
        routes = [page_route("/", "board.html", title="Fleet", subtitle="of one board")]
        self._server = PageServer(routes, self._hub, address)
        self.url = ""

    def __enter__(self) -> Self:
        """Begin to serve."""
        self.url = self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.close()

    def update(self, status: FleetStatus) -> None:
        """Show a new status."""
        self._history.take(status)
        found: dict[str, Any] = {
            "status": status.to_dict(), "history": self._history.rows, "places": places(status),
        }  # fmt: skip
        self._hub.publish("board", found)
