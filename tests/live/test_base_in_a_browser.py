"""The base of all pages in a real browser: the policy holds, and complaints are noticed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.live.conftest import OpenPage
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress
from veilsum.live.server import PageServer, page_route

pytestmark = pytest.mark.integration

FORGED = """<!doctype html><title>no</title><link rel="icon" href="/static/icon.svg">
<script>document.title = "ran"</script>"""


@pytest.fixture
def url() -> Iterator[str]:
    async def forged(_: Request) -> Response:
        return HTMLResponse(FORGED)

    routes = [page_route("/", "base.html", title="north", subtitle="of a test")]
    server = PageServer([*routes, Route("/forged", forged)], Hub(), PageAddress("127.0.0.1", 0))
    yield server.start()
    server.close()


def test_the_base_loads_without_a_complaint(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    assert page.title() == "north"
    dark = open_page(url, dark=True, width=390)
    pictures = [shown.screenshot() for shown in (page, dark)]
    assert pictures[0] != pictures[1]


def test_a_script_in_a_page_does_not_run_and_is_noticed(
    url: str, open_page: OpenPage, complaints: list[str]
) -> None:
    """The weakened variant of every test that expects no complaint."""
    page = open_page(f"{url}forged")
    assert page.title() == "no"
    assert any("Content Security Policy" in text for text in complaints)
    complaints.clear()
