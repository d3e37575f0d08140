"""Pages: one renderer for sheets and for texts to sign. Each is one file that fetches and runs nothing.

The Content-Security-Policy of a page allows its one style sheet, by its hash, and pictures that are
inside the file. Templates escape everything that is not markup of theirs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from veilsum.front.screen import headings, lines_of
from veilsum.front.sheet import groups
from veilsum.front.words import undrawn, with_bar
from veilsum.privacy import Status

if TYPE_CHECKING:
    from veilsum.front.sheet import Answer, Answers

GENERATOR = '<meta name="generator" content="veilsum">'
MOST_ROWS = 200


@cache
def templates() -> Environment:
    """The templates of pages, with what they call."""
    made = Environment(
        loader=PackageLoader("veilsum.front"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.globals |= {"badge_class": badge_class, "useful": _useful, "number": _number}
    return made


def document(answers: Answers) -> str:
    """A sheet as a whole page."""
    return page("base.html", answers.title, body=Markup(inside(answers)))


def page(template: str, title: str, **values: Any) -> str:
    """A whole page from a template that extends base.html.

    Parameters
    ----------
    template
        Its name.
    title
        Of the page.
    **values
        What the template shows; escaped unless it is `Markup`.

    Returns
    -------
    str
        HTML.
    """
    sheet = style()
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode("ascii")
    made = templates().get_template(template)
    return made.render(title=title, style=Markup(sheet), digest=Markup(digest), **values)


@cache
def style() -> str:
    """The style sheet of all pages."""
    loader = templates().loader
    assert loader is not None
    return loader.get_source(templates(), "style.css")[0]


def inside(answers: Answers) -> str:
    """The body of a page, which a notebook shows as it is."""
    shown = answers.rows[:MOST_ROWS]
    cells = {id(row): line.cells for row, line in zip(shown, lines_of(shown), strict=True)}
    heads = headings(lines_of(shown))
    values = {
        "sheet": answers,
        "best": answers.rows[0] if answers.rows else None,
        "parts": groups(shown),
        "hidden": len(answers.rows) - len(shown),
        "heads": heads,
        "numbers": {
            head for head in heads if _are_numbers(c.get(head, "") for c in cells.values())
        },
        "cell": lambda row, head: cells[id(row)].get(head, ""),
        "hidden_by": _hidden_by,
        "details": _details(shown),
        "pictures": () if undrawn() else answers.pictures(),
        "undrawn": undrawn(),
    }
    return templates().get_template(answers.template).render(**values, **answers.more())


def badge_class(status: str, useful: bool = True) -> str:
    """The colour of a verdict: green where it is proved and useful, nowhere else."""
    kind = BADGES.get(status, "bad")
    return "mend" if kind == "good" and not useful else kind


BADGES = {
    "proved": "good", "estimated": "mend", "claimed": "mend", "confirmed": "good", "corrected": "mend",
    "true, uninformative": "mend", "skipped": "faint",
    "useful": "good", "not useful": "mend",
    "not refuted": "faint", "beyond": "mend", "tested": "mend", "assumed": "mend",
}  # fmt: skip


def _useful(row: Answer) -> bool:
    return row.guarantee is None or row.guarantee.useful


def _hidden_by(rows: list[Answer]) -> list[str]:
    """What is hidden of a value, to stand where epsilon does; the names where rows differ."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.guarantee is not None and row.guarantee.status not in (Status.NONE, Status.REFUTED):
            names = found.setdefault(row.guarantee.hides(row.unit), [])
            names.extend([row.name] if row.name not in names else [])
    if len(found) < 2:
        return [f"{text[:1].upper()}{text[1:]}." for text in found]
    return [f"{', '.join(names)}: {text}." for text, names in found.items()]


def _number(row: Answer) -> str:
    return with_bar(row.value, row.low, row.high, row.unit)


def _are_numbers(texts: Iterable[str]) -> bool:
    return all(text[:1].isdigit() or text[:1] in ("", "-") for text in texts)


def _details(rows: tuple[Answer, ...]) -> list[tuple[str, str]]:
    """Each guarantee in full, after the names that it belongs to."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.guarantee is not None and row.guarantee.status is not Status.NONE:
            names = found.setdefault(str(row.guarantee), [])
            if row.name not in names:
                names.append(row.name)
    return [(", ".join(names), text) for text, names in found.items()]
