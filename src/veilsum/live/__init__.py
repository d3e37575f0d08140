"""Pages that a browser shows while agents run, and one that asks; needs the extra `live`.

hub.py       the last snapshot and the events after it, for any number of readers
security.py  where a page may be served, to whom, and the headers of every answer
server.py    the server: a page, /events, /static, in a thread of its own
site.py      the page of one site
fleet.py     the data of the fleet page; fleet_history.py, fleet_layout.py: its parts
fleet_server.py  the fleet page, served
board_page.py  the page of a fleet that shares a board, served
ask.py       the page of `veilsum ask`; ask_form.py, ask_guard.py: its form, and who may use it
"""

from veilsum._lazy import lazily

__all__ = ["Hub", "PageAddress", "PageServer", "PageTls", "parse_address"]

__getattr__ = lazily(
    __name__,
    {
        "Hub": "hub",
        "PageAddress": "security",
        "PageServer": "server",
        "PageTls": "security",
        "parse_address": "security",
    },
)
