"""Build hook: README.md for the package index, with its relative links made absolute.

A package index shows README.md without the repository around it. Relative links lead to the files of
the released version, below the address `Source` of `[project.urls]`; pictures to their raw bytes.
Hatchling calls `PackagePage.update` for every wheel, source distribution and editable install.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(
    r"(?P<before>"
    r"(?P<picture>!)?\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\]\("  # [text](, also around a picture
    r"|^\[[^\]]+\]:[ ]+"  # [name]: at the start of a line
    r"|<(?P<image>img|source)\b[^>]*\b(?:src|srcset)=\"|<a\b[^>]*\bhref=\""
    r")(?P<target>[^)\s\"]+)",
    re.MULTILINE,
)
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//", re.IGNORECASE)
FENCED = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)


def absolute_links(text: str, source: str, version: str) -> str:
    """Rewrite relative links to the files of `version` below the repository's address.

    Parameters
    ----------
    text
        A page in Markdown. Code between fences is left as it is.
    source
        Address of the repository.
    version
        The version, whose tag is `v` and the version.

    Returns
    -------
    str
        The page, with nothing that depends on where it is shown.

    Examples
    --------
    >>> absolute_links("[a](docs/a.md#b), ![c](c.png)", "https://forge.example/m", "1.0")
    '[a](https://forge.example/m/blob/v1.0/docs/a.md#b), ![c](https://forge.example/m/raw/v1.0/c.png)'
    """

    def one(match: re.Match[str]) -> str:
        before, target = match["before"], match["target"]
        if match["picture"] is None:  # [![picture](p.png)](page.md) has a picture in its text
            before = LINK.sub(one, before[1:])
            before = match["before"][0] + before
        if ABSOLUTE.match(target):
            return before + target
        kind = "raw" if match["picture"] or match["image"] else "blob"
        return f"{before}{source.rstrip('/')}/{kind}/v{version}/{target.removeprefix('./')}"

    parts, end = [], 0
    for code in FENCED.finditer(text):
        parts += [LINK.sub(one, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(one, text[end:])])


class PackagePage(MetadataHookInterface):
    """Fill in the field `readme`, which pyproject.toml declares dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` from README.md, `[project.urls]` and the version."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        page = absolute_links(text, metadata["urls"]["Source"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
