"""A figure as SVG inside a page whose policy allows no style but the page's own.

Matplotlib writes `style="fill: none; stroke: #000000"`, which such a policy ignores; the same as
attributes, `fill="none" stroke="#000000"`, needs no style. Names of parts are made unique, so that
one page can hold several figures.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import matplotlib

from veilsum._html import Markup, element, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = re.compile(r' style="([^"]*)"')
_NAME = re.compile(r'((?:\bid="|href="#|url\(#))([^")]+)')
_SHEET = re.compile(r"<style.*?</style>", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
JOINTS = ' stroke-linejoin="round" stroke-linecap="butt"'  # what matplotlib's style sheet says


def inline(figure: Figure, name: str, description: str) -> Markup:
    """A figure as one <figure> element with a caption for those who do not see it.

    Parameters
    ----------
    figure
        As `veilsum.results.figures` draws them: text as shapes, no script.
    name
        Unique in the page; letters and digits.
    description
        What it shows.

    Returns
    -------
    Markup
        The same figure gives the same text.
    """
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "veilsum", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for part in (_SHEET, _METADATA, _COMMENT):
        text = part.sub("", text)
    text = _STYLE.sub(_attributes, text)
    text = _NAME.sub(rf"\g<1>{name}-\g<2>", text)
    start = f'<svg role="img" aria-label="{escape(description)}"{JOINTS}'
    return element("figure", Markup(text.replace("<svg", start, 1)))


def _attributes(found: re.Match[str]) -> str:
    """`style="a: b; c: d"` as ` a="b" c="d"`."""
    pairs = (part.partition(":") for part in found[1].split(";") if ":" in part)
    return "".join(f' {key.strip()}="{value.strip()}"' for key, _, value in pairs)
