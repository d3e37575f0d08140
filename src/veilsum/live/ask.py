"""The page of `veilsum ask` without arguments: choose a table, see what an answer would be worth, ask.

    browser                                 this process
    GET  /                                  the form, made from the questions that there are; no data
    POST /tables                            names of the tables in the folder
    POST /columns   {table}                 names of its columns
    POST /plan      {table, question, ...}  what it would buy: rows are counted, no value is read
    POST /ask       {table, question, ...}  the answer: drawn once, charged and kept, as on the command line

Answers are the inside of the page that `veilsum ask -o` writes. The server is on loopback alone, for whoever
has the token (`ask_guard`); it asks one question at a time.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from veilsum.errors import AgentError, VeilsumError
from veilsum.live.ask_form import FilledForm, forms, table_of
from veilsum.live.ask_guard import AskGuard
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress
from veilsum.live.server import PageServer, answer_route, page_route

MOST_TABLES = 500  # of a folder, that are offered
LOCAL = PageAddress("127.0.0.1", 0)
SPENT = ("limit", "anyway", "fresh")  # terms of a release, and not of a forecast
FEWER = {"where": "a filter", "id": "one record a person", "missing": "leaving rows out"}

Work = Callable[[Mapping[str, Any]], dict[str, Any]]


class AskServer:
    """The page, served from `start` to `close`.

    Parameters
    ----------
    folder : Path, optional
        Whose tables are offered, and what paths are relative to; the current one by default.
    address : PageAddress
        On loopback.

    Examples
    --------
    >>> with AskServer() as page:
    ...     page.start().startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, folder: Path | None = None, address: PageAddress = LOCAL) -> None:
        """Nothing is served yet."""
        if not address.is_loopback:
            raise AgentError(
                f"the page that asks is for this machine alone: not {address}, but 127.0.0.1:{address.port}"
            )
        self.folder = Path.cwd() if folder is None else folder
        self.token = secrets.token_urlsafe(32)
        works: dict[str, Work] = {
            "/tables": self._tables, "/columns": self._columns, "/plan": self._plan, "/ask": self._ask,
        }  # fmt: skip
        self._turn = threading.Lock()
        routes = [
            page_route("/", "ask.html", title="Ask", forms=forms()),
            answer_route("/style.css", _style),
            *(Route(path, self._answering(work), methods=["POST"]) for path, work in works.items()),
        ]
        self._server = PageServer(routes, Hub(), address, guard=partial(AskGuard, token=self.token))

    def start(self) -> str:
        """Begin to serve; returns the address for a browser, with the token."""
        return f"{self._server.start()}#{self.token}"

    def close(self) -> None:
        """Stop; a question that is being asked is answered and charged first."""
        with self._turn:
            self._server.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _answering(self, work: Work) -> Callable[[Request], Any]:
        async def answering(request: Request) -> Response:
            try:
                sent = json.loads(await request.body())
                if not isinstance(sent, dict):
                    raise ValueError
            except ValueError:
                return JSONResponse({"error": "a question is a JSON object"}, 400)
            return await asyncio.to_thread(self._one, work, sent)

        return answering

    def _one(self, work: Work, sent: Mapping[str, Any]) -> Response:
        """One at a time: libraries that draw and read tables share state."""
        with self._turn:
            try:
                return JSONResponse(work(sent))
            except VeilsumError as error:
                return JSONResponse({"error": str(error)}, 422)

    def _path(self, table: str) -> Path:
        return self.folder / Path(table).expanduser()

    def _tables(self, _: Mapping[str, Any]) -> dict[str, Any]:
        from veilsum.asking.tables import TABLE_FILES

        found = (path.name for path in self.folder.iterdir() if path.suffix.lower() in TABLE_FILES)
        return {"tables": sorted(found)[:MOST_TABLES], "folder": str(self.folder)}

    def _columns(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        from veilsum.asking import open_table

        return {"columns": list(open_table(self._path(table_of(sent))).columns)}

    def _plan(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """What one holder would get: of as many records as the table has rows, the most there can be."""
        from veilsum.asking import open_table
        from veilsum.asking.forecasting import forecasts
        from veilsum.front.of_question_plan import of_question_plan
        from veilsum.front.page import inside

        asked = FilledForm.read(sent)
        table = open_table(self._path(asked.table))
        terms = {name: value for name, value in asked.terms.items() if name not in SPENT}
        rows = table.rows()
        found = forecasts([asked.question], rows, sites=(), **terms)
        table.check(found.settled.view.names([one.question for one in found.settled.asked]))
        fewer = [what for name, what in FEWER.items() if name in terms]
        note = (
            f" {' and '.join(fewer)} makes the records fewer, and the error bar wider."
            if fewer
            else ""
        )
        counted = (
            f"{table.name} has {rows:,} rows; nothing else was read, and nothing is spent.{note}"
        )
        return {"html": str(inside(of_question_plan(found))), "note": counted}

    def _ask(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        from veilsum import asking
        from veilsum.front.of_ask import of_ask
        from veilsum.front.page import inside

        asked = FilledForm.read(sent)
        reply = asking.ask(self._path(asked.table), asked.question, **asked.terms)
        return {"html": str(inside(of_ask(reply)))}


def serve(
    folder: Path | None = None,
    address: PageAddress = LOCAL,
    *,
    browser: Callable[[str], Any] = webbrowser.open,
    tell: Callable[[str], Any] | None = None,
) -> None:
    """Serve the page until Ctrl-C, and open it.

    Parameters
    ----------
    folder
        Whose tables are offered; the current one by default.
    address
        On loopback.
    browser
        Opens an address.
    tell
        Says where the page is; on standard error by default.
    """
    with AskServer(folder, address) as page:
        url = page.start()
        (tell or _said)(f"Ask at {url} until Ctrl-C. Whoever has this address can ask.")
        browser(url)
        with suppress(KeyboardInterrupt):
            _until()


def _until() -> None:
    """Ctrl-C."""
    threading.Event().wait()


def _said(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _style() -> tuple[int, str, bytes]:
    from veilsum.front.page import style

    return 200, "text/css; charset=utf-8", style().encode()
