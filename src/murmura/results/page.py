"""One self-contained HTML page: sections with a verdict, figures, tables and how they were made.

Figures are embedded, styles are inline, and there is no script: the file can be mailed, archived
and read on a phone.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --faint: #6b6b6b;
  --line: #dddddd; --good: #00704a; --mend: #8a5a00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #eaeaea; --paper: #16181a;
  --faint: #a0a0a0; --line: #3a3a3a; --good: #4cc38a; --mend: #e0a83c; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin: 0 0 .3rem; }
section { border-top: 1px solid var(--line); padding: 1.2rem 0; }
img { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
.verdict { font-weight: 600; text-transform: uppercase; font-size: .8rem; }
.confirmed { color: var(--good); } .corrected { color: var(--mend); }
.refuted { color: var(--bad); }
.skipped, .failed, .how, .whose, blockquote { color: var(--faint); }
.statement { margin: .6rem 0 .9rem; padding-left: .8rem; border-left: 3px solid var(--line); }
.statement p { margin: .1rem 0; } .whose { font-size: .8rem; }
blockquote { margin: .1rem 0; font-size: .85rem; font-style: italic; overflow-wrap: anywhere; }
.how { font: .8rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--line);
  white-space: nowrap; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
nav a { color: inherit; margin-right: .8rem; white-space: nowrap; display: inline-block; }
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
    """One figure or table with its verdict, and the command that makes it again."""

    id: str
    title: str
    verdict: str = ""
    text: str = ""
    images: Sequence[Path] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default=())
    how: str = ""
    statements: Sequence[Statement] = ()


def render(title: str, introduction: str, sections: Sequence[PageSection]) -> str:
    """Write the page as one HTML document."""
    links = "".join(f'<a href="#{_text(s.id)}">{_text(s.id)}</a>' for s in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_text(title)}</h1>\n<p>{_text(introduction)}</p>\n<nav>{links}</nav>\n"
        + "\n".join(map(_section, sections))
        + "\n</body>\n</html>\n"
    )


def _section(section: PageSection) -> str:
    parts = [f'<section id="{_text(section.id)}">', f"<h2>{_text(section.title)}</h2>"]
    if section.verdict:
        kind = _text(section.verdict)
        parts.append(f'<p><span class="verdict {kind}">{kind}</span> {_text(section.text)}</p>')
    elif section.text:
        parts.append(f'<p class="whose">{_text(section.text)}</p>')
    parts += [_statement(each) for each in section.statements]
    parts += [_image(path, section.title) for path in section.images]
    if section.rows:
        parts.append(_table(section.heads, section.rows))
    if section.how:
        parts.append(f'<p class="how">{_text(section.how)}</p>')
    return "\n".join([*parts, "</section>"])


def _statement(each: Statement) -> str:
    kind = _text(each.verdict)
    quote = f"<blockquote>{_text(each.quote)}</blockquote>" if each.quote else ""
    return (
        f'<div class="statement"><p><span class="verdict {kind}">{kind}</span> '
        f'<span class="whose">{_text(each.whose)}</span> <b>{_text(each.statement)}</b></p>'
        f"{quote}<p>{_text(each.sentence)}</p></div>"
    )


def _image(path: Path, title: str) -> str:
    data = base64.b64encode(Path(path).read_bytes()).decode("ascii")
    return f'<p><img alt="{_text(title)}" src="data:image/png;base64,{data}"></p>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(h)}</th>" for h in heads)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _cell(value: str) -> str:
    kind = ' class="number"' if _is_number(value) else ""
    return f"<td{kind}>{_text(value)}</td>"


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _text(value: str) -> str:
    return html.escape(str(value), quote=True)
