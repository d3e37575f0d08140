"""Who may use the page that asks: the browser of whoever started it, by a token that only they saw.

The page asks of files and spends budgets, so that reading it on this machine is not enough, as it is for a
page of statuses. The token is behind the `#` of the address that is printed, which no browser sends or
logs; the page's script puts it into a header of each request. A header of that name, like the JSON of the
body, is something that a page of another origin cannot send: `PageGuard` answers no preflight.
"""

from __future__ import annotations

import hmac
from typing import ClassVar

from veilsum.live.security import METHODS, App, PageGuard, PageTls, Scope

TOKEN = "x-veilsum-token"
MOST_BYTES = 1 << 16  # of a request


class AskGuard(PageGuard):
    """Lets POST through from this origin, with the token.

    Parameters
    ----------
    app, hosts, tls
        As of `PageGuard`.
    token : str
        Of this server.
    """

    methods: ClassVar[tuple[str, ...]] = (*METHODS, "POST")

    def __init__(self, app: App, hosts: frozenset[str], tls: PageTls | None, *, token: str) -> None:
        """Nothing is asked yet."""
        super().__init__(app, hosts, tls)
        self._token = token.encode()

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason, for a request that is not answered."""
        refused = super().refusal(scope)
        if refused is not None or scope["method"] != "POST":
            return refused
        headers = {key.lower(): value for key, value in scope["headers"]}
        if b"origin" not in headers:
            return 403, "requests without an origin are not answered"
        if not hmac.compare_digest(headers.get(TOKEN.encode(), b""), self._token):
            return (
                403,
                "open the page by the address that veilsum ask printed, with what follows the #",
            )
        if headers.get(b"content-type") != b"application/json":
            return 415, "a question is JSON"
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return 413, f"a question has at most {MOST_BYTES:,} bytes"
        return None
