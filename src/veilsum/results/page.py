"""One self-contained HTML page of statements: each with a badge, its numbers, and figures.

Figures are embedded, the style is in the file, and there is no script: the page can be mailed,
archived, printed and read on a phone, where the panels of a figure are below one another. A badge
has a sign and a word: its colour says nothing that they do not.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from veilsum._html import STYLE, Markup, document, element, escape, join, table

BADGES = {  # verdict -> sign, class
    "confirmed": ("✓", "good"),
    "true, uninformative": ("○", "mend"),
    "corrected": ("≈", "mend"),
    "refuted": ("✗", "bad"),
    "skipped": ("-", "faint"),
    "failed": ("!", "bad"),
}
MORE = """
img { max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; }
nav a { margin-right: .8rem; white-space: nowrap; display: inline-block; }
blockquote { margin: .2rem 0; color: var(--faint); font-size: .875rem; font-style: italic;
  overflow-wrap: anywhere; } .whose { color: var(--faint); font-size: .8rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .6rem;
  align-items: end; background: #ffffff; border-radius: 6px; padding: .4rem; }
.panels img { justify-self: center; } .legend { text-align: center;
  background: #ffffff; } .legend img { max-width: min(100%, 28rem); }
.claims td:first-child { width: 8.5rem; } .claims td:nth-child(2) { width: 45%; }
.plain td:last-child { white-space: nowrap; color: var(--faint); }
.short td { font-variant-numeric: tabular-nums; } .short { width: auto; }
dl { display: grid; grid-template-columns: minmax(8rem, 14rem) 1fr; gap: .4rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; }
@media screen and (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin: 0 0 .7rem; } .panels { grid-template-columns: 1fr; }
  .plain table.stack td[data-head]::before,
  .claims td:nth-child(2)[data-head]::before { content: none !important; }
  .claims td:first-child, .claims td:nth-child(2) { width: auto; } }
@media print { nav { display: none; } .panels { grid-template-columns: repeat(3, 1fr); }
  .panels img, figure img { max-height: 11cm; } dt, dd { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Statement:
    """A statement with its verdict, whose it is, its numbers, and its words in the source."""

    verdict: str
    whose: str
    statement: str
    sentence: str
    quote: str = ""


@dataclass(frozen=True)
class PageSection:
    """One figure or table with its verdict, and the command that makes it again.

    `panels` are the parts of a figure, which are shown in its place: columns after a legend.
    """

    id: str
    title: str
    verdict: str = ""
    text: str = ""
    images: Sequence[Path] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default=())
    how: str = ""
    statements: Sequence[Statement] = ()
    panels: Sequence[Path] = ()


def render(
    title: str,
    introduction: Sequence[object],
    sections: Sequence[PageSection],
    meanings: Mapping[str, str] | None = None,
    glossary: Mapping[str, str] | None = None,
) -> str:
    """Write the page as one HTML document.

    Parameters
    ----------
    title
        Of the page.
    introduction
        Paragraphs.
    sections
        Figures and tables, with their statements.
    meanings
        What each verdict means, for those that occur.
    glossary
        Terms in words.

    Returns
    -------
    str
        HTML that fetches nothing and runs nothing.
    """
    body: list[object] = [element("h1", title)]
    body += [
        element("p", text, class_="lead" if k == 0 else None) for k, text in enumerate(introduction)
    ]
    links = [element("a", each.id, href=f"#{each.id}") for each in sections]
    if glossary:
        links.append(element("a", "glossary", href="#glossary"))
    body.append(element("nav", *links))
    if meanings:
        body.append(_meanings(sections, meanings))
    if any(each.statements for each in sections):
        body.append(_overview(sections))
    body += [_section(each) for each in sections]
    if glossary:
        body.append(_glossary(glossary))
    return document(title, body, STYLE + MORE)


def verdict_badge(verdict: str) -> Markup:
    """A verdict with its sign, for those who do not see colours.

    Parameters
    ----------
    verdict
        Such as "confirmed".

    Returns
    -------
    Markup
        A span; an unknown verdict is shown as it is.
    """
    sign, kind = BADGES.get(verdict, ("?", "faint"))
    return element("span", f"{sign} {verdict}", class_=f"badge {kind}")


def _meanings(sections: Sequence[PageSection], meanings: Mapping[str, str]) -> Markup:
    """What the badges say, and how many there are."""
    found = [s.verdict for each in sections for s in each.statements]
    found += [each.verdict for each in sections if not each.statements]
    rows = [
        (verdict_badge(verdict), meaning, f"{found.count(verdict)}")
        for verdict, meaning in meanings.items()
        if verdict in found
    ]
    made = table(("badge", "what it says", "rows"), rows, stacked=True)
    return element("section", element("h2", "How to read it"), made, id="badges")


def _overview(sections: Sequence[PageSection]) -> Markup:
    """Every statement in one row, with a link to its numbers."""
    rows = [
        (verdict_badge(s.verdict), element("a", s.statement, href=f"#{each.id}"), s.whose)
        for each in sections
        for s in each.statements
    ]
    made = element(
        "div", table(("verdict", "statement", "whose"), rows, stacked=True), class_="plain"
    )
    return element("section", element("h2", "All statements"), made, id="statements")


def _section(section: PageSection) -> Markup:
    parts: list[object] = [element("h2", section.title)]
    if section.verdict:
        parts.append(element("p", verdict_badge(section.verdict), f" {section.text}"))
    elif section.text:
        parts.append(element("p", section.text, class_="whose"))
    if section.statements:
        parts.append(element("div", _statements(section.statements), class_="claims"))
    parts += _figures(section)
    if section.rows:
        parts.append(element("div", table(section.heads, section.rows), class_="short"))
    if section.how:
        parts.append(element("p", element("code", section.how), class_="faint"))
    return element("section", join(parts, "\n"), id=section.id)


def _statements(found: Sequence[Statement]) -> Markup:
    rows = []
    for each in found:
        quote = element("blockquote", f"“{each.quote}”") if each.quote else ""
        rows.append(
            (
                element(
                    "span",
                    verdict_badge(each.verdict),
                    " ",
                    element("span", each.whose, class_="whose"),
                ),
                element("div", element("b", each.statement), quote),
                each.sentence,
            )
        )
    return table(("verdict", "statement", "what was found"), rows, stacked=True)


def _figures(section: PageSection) -> list[Markup]:
    """The figure, or its legend and its columns."""
    if not section.panels:
        return [element("figure", _image(path, section.title)) for path in section.images]
    legend = [path for path in section.panels if path.stem.endswith("-legend")]
    columns = [path for path in section.panels if path not in legend]
    parts = [element("div", _image(path, "Legend"), class_="legend") for path in legend]
    names = [f"{section.title}: part {k} of {len(columns)}" for k in range(1, len(columns) + 1)]
    shown = [_image(path, name) for path, name in zip(columns, names, strict=True)]
    return [element("figure", *parts, element("div", *shown, class_="panels"))]


def _glossary(terms: Mapping[str, str]) -> Markup:
    words = [
        element("dt", term) + element("dd", meaning)
        for term, meaning in sorted(terms.items(), key=_first)
    ]
    made = element("dl", *map(Markup, words))
    return element("section", element("h2", "Glossary"), made, id="glossary")


def _first(entry: tuple[str, str]) -> str:
    return entry[0].lower()


def _image(path: Path, title: str) -> Markup:
    data = base64.b64encode(Path(path).read_bytes()).decode("ascii")
    return Markup(f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">')
