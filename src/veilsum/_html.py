"""HTML that is escaped unless it says otherwise, and documents that need nothing but themselves.

    element("p", "1 < 2 ", element("b", name), class_="note")      a `Markup`; text is escaped
    document("A title", [element("h1", "A title")])                 a whole page, as text

A document fetches nothing and runs no script: its Content-Security-Policy allows the one style
sheet in it, by its hash, and pictures that are inside the file.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --faint: #5c5c5c;
  --line: #d4d4d4; --good: #00704a; --mend: #8a5a00; --bad: #b3261e; --panel: #f5f6f7; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #eaeaea; --paper: #16181a;
  --faint: #a8a8a8; --line: #3d4043; --good: #4cc38a; --mend: #e0a83c; --bad: #ff8a80;
  --panel: #212427; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .4rem 0; }
h2 { font-size: 1.15rem; margin: 0 0 .4rem; } h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
p { margin: .5rem 0; } ul { margin: .5rem 0; padding-left: 1.3rem; } li { margin: .25rem 0; }
section { border-top: 1px solid var(--line); padding: 1.1rem 0; }
a { color: inherit; } .faint, figcaption, caption { color: var(--faint); font-size: .875rem; }
.lead { font-size: 1.1rem; background: var(--panel); border-radius: 6px; padding: .8rem 1rem; }
.badge { font-weight: 600; font-size: .75rem; text-transform: uppercase; letter-spacing: .03em;
  border: 1px solid currentColor; border-radius: 4px; padding: 0 .35rem; white-space: nowrap; }
.good { color: var(--good); } .mend { color: var(--mend); } .bad { color: var(--bad); }
.missing { color: var(--mend); } .stop { color: var(--bad); font-weight: 700; }
.piece { white-space: nowrap; }
figure { margin: 1rem 0; } figure svg { display: block; max-width: 100%; height: auto;
  background: #ffffff; border-radius: 6px; }
code, pre, .hash { font: .85rem/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap; }
.wide { overflow-x: auto; } .wide + .wide { margin-top: .9rem; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; padding-right: .8rem; }
.fill { display: block; border-bottom: 1px solid var(--ink); height: 2.2rem; }
.sign { display: grid; grid-template-columns: 2fr 2fr 1fr; gap: 1.2rem; }
@media screen and (max-width: 40rem) {
  table.stack tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.stack thead { display: none; }
  table.stack td, table.stack th { display: block; border: 0; padding: .1rem 0; text-align: left; }
  table.stack td[data-head]:not([data-head=""])::before { content: attr(data-head) ": ";
    color: var(--faint); font-weight: 400; }
  .sign { grid-template-columns: 1fr; } }
@page { size: A4; margin: 10mm 12mm; }
@media print { body { max-width: none; padding: 0 1px; font-size: 8pt; line-height: 1.24; }
  h1 { font-size: 13pt; margin: 0 0 .2rem; } h2 { font-size: 9.5pt; margin: 0 0 .15rem; }
  table { font-size: 7.5pt; } caption { padding-bottom: .1rem; }
  th, td { padding-top: .08rem; padding-bottom: .08rem; } p, ul { margin: .15rem 0; }
  li { margin: .08rem 0; } section { padding: .22rem 0; } .wide + .wide { margin-top: .35rem; }
  h2, h3, thead, caption { break-after: avoid; }
  tr, li, figure, .lead, .sign, pre { break-inside: avoid; } .wide { overflow: visible; }
  #signature { break-inside: avoid; break-before: avoid; } .fill { height: 1.05rem; }
  .faint, figcaption, caption, code, pre, .hash { font-size: 7.5pt; } .badge { font-size: 6.5pt; }
  .sign .fill { height: 1.6rem; }
  .lead, pre { border: 1px solid var(--line); background: none; padding: .3rem .6rem; }
  .lead { font-size: 9.5pt; } }
"""


class Markup(str):
    """HTML that is inserted as it is; every other text is escaped."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """The text of a value, safe between tags and in attributes; markup as it is."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value), quote=True))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """All parts one after the other, escaped where they are no markup."""
    return Markup(escape(between).join(map(escape, parts)))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """One element; `class_` is the attribute class, `data_head` is data-head.

    Parameters
    ----------
    tag
        Its name.
    children
        Escaped unless they are markup.
    attributes
        Escaped; those that are None are left out.

    Returns
    -------
    Markup
        The element.

    Examples
    --------
    >>> print(element("td", "a < b", class_="number"))
    <td class="number">a &lt; b</td>
    """
    names = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    given = "".join(f' {key}="{escape(v)}"' for key, v in names.items() if v is not None)
    return Markup(f"<{tag}{given}>{join(children)}</{tag}>")


def table(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    caption: object = None,
    stacked: bool = False,
) -> Markup:
    """A table that scrolls by itself on a narrow screen or, `stacked`, has its cells in lines there.

    Texts that are numbers, with a unit or without, are aligned to the right.

    Parameters
    ----------
    heads
        Of the columns.
    rows
        Cells.
    caption
        Above it.
    stacked
        For a table with few rows, or with columns of sentences.

    Returns
    -------
    Markup
        The table.
    """
    found = [list(row) for row in rows]
    right = [_are_numbers([row[k] for row in found]) for k in range(len(heads))]
    lines = [element("caption", caption)] if caption is not None else []
    names = [
        element("th", h, scope="col", class_="number" if r else None)
        for h, r in zip(heads, right, strict=True)
    ]
    lines.append(element("thead", element("tr", *names)))
    body = []
    for row in found:
        cells = [
            element(
                "td", cell, class_="number" if r else None, data_head=h if stacked and k else None
            )
            for k, (cell, h, r) in enumerate(zip(row, heads, right, strict=True))
        ]
        body.append(element("tr", *cells))
    lines.append(element("tbody", join(body, "\n")))
    made = element("table", join(lines, "\n"), class_="stack" if stacked else None)
    return element("div", made, class_="wide")


def facts(rows: Iterable[tuple[object, object]], caption: object = None) -> Markup:
    """A table of names and values, as notebooks show it."""
    lines = [element("caption", caption)] if caption is not None else []
    lines += [element("tr", element("th", n, scope="row"), element("td", v)) for n, v in rows]
    return element("table", join(lines, "\n"), class_="stack")


def bullets(items: Iterable[object]) -> Markup:
    """A list."""
    return element("ul", *(element("li", item) for item in items))


def section(title: str, *children: object, name: str | None = None) -> Markup:
    """A part of a page, with its heading."""
    return element("section", element("h2", title), *children, id=name)


def document(title: str, body: Iterable[object], style: str = STYLE) -> str:
    """A whole page: fetches nothing, runs nothing, and says so to the browser.

    Parameters
    ----------
    title
        Of the page.
    body
        Escaped unless it is markup.
    style
        The only style sheet: attributes `style` have no effect.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> "script-src" in document("A page", []), "default-src 'none'" in document("A page", [])
    (False, True)
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{join(body, chr(10))}\n</body>\n</html>\n"
    )


def _are_numbers(column: Sequence[object]) -> bool:
    """Whether a column has numbers and nothing else, those that are missing aside."""
    known = [value for value in column if str(value) not in ("", "-")]
    return bool(known) and all(map(_is_number, known))


def _is_number(value: object) -> bool:
    word = str(value).partition(" ")[0].replace(",", "").rstrip("%")
    try:
        return not math.isnan(float(word))
    except ValueError:
        return False


def badge(status: Any, useful: bool = True) -> Markup:
    """The status of a guarantee, with a colour that says whether to rely on it."""
    kind = {"proved": "good", "estimated": "mend", "claimed": "mend"}.get(str(status), "bad")
    kind = "mend" if kind == "good" and not useful else kind
    return element("span", str(status), class_=f"badge {kind}")
