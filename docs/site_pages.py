"""Pages of the site that come from elsewhere in the repository, and links into it.

`examples/*.toml` become a gallery, the files beside README.md the part "project", docstrings the API
reference. They are written to folders beside the pages (`examples`, `project`, `api`,
`notebooks`) that git ignores. In the repository a link leads to a file (`../CHANGELOG.md`,
`../examples/feeder.toml`); in the site to the page made of it.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from docs.generate import MARK

from docs import gallery, site_api

ROOT = Path(__file__).resolve().parent.parent
PROJECT = {  # files beside README.md, and their pages
    "CHANGELOG.md": "project/changelog",
    "ARCHITECTURE.md": "project/architecture",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "DATA-LICENSES.md": "project/data-licenses",
    "LICENSE": "project/license",
    "CITATION.cff": "project/citation",
    "README.md": "index",
}
MADE = ("api", "examples", "project", "notebooks")
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
UNKNOWN = re.compile(r"^```(csv|steps)$", re.MULTILINE)  # languages without a highlighter
MERMAID = re.compile(r"^```mermaid\n.*?^```\n+", re.DOTALL | re.MULTILINE)


def write(docs: Path) -> None:
    """Write all pages that are made, and remove those that are no longer."""
    made = {
        **project_pages(),
        **{f"examples/{e.stem}.md": gallery.page(e) for e in gallery.EXAMPLES},
        **site_api.pages(),
    }
    for name, text in made.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        copy = docs / "notebooks" / notebook.name
        copy.parent.mkdir(exist_ok=True)
        if not copy.exists() or copy.read_bytes() != notebook.read_bytes():
            shutil.copyfile(notebook, copy)
        made[f"notebooks/{notebook.name}"] = ""
    for folder in MADE:
        for path in (docs / folder).rglob("*"):
            if path.is_file() and path.relative_to(docs).as_posix() not in made:
                path.unlink()


def project_pages() -> dict[str, str]:
    """Changelog, architecture and the like: the files as they are."""
    pages = {}
    for file, page in PROJECT.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        if file == "LICENSE":
            text = f"# Licence\n\n```text\n{text.rstrip()}\n```\n"
        elif file == "CITATION.cff":
            text = f"# How to cite\n\n`CITATION.cff`:\n\n```yaml\n{text.rstrip()}\n```\n"
        if page != "index":
            pages[f"{page}.md"] = text
    return pages


def adapt(_app: Any, page: str, text: list[str]) -> None:
    """Turn a page of the repository into one of the site, as Sphinx reads it."""
    if page.startswith("api/"):
        return
    if page == "api":
        text[0] = site_api.index(text[0])
    if page == "gallery":
        text[0] = MARK.sub(lambda _: gallery.cards(), text[0])
    text[0] = MERMAID.sub("", text[0])  # the tables beside them say the same; no script draws here
    text[0] = UNKNOWN.sub("```text", text[0])
    text[0] = LINK.sub(lambda link: target(page, link[1]) + (link[2] or ""), text[0])


def target(page: str, link: str) -> str:
    """Where a link of a page leads in the site."""
    folder = posixpath.dirname(page)
    origin = {"project": "", "notebooks": "notebooks"}.get(folder, posixpath.join("docs", folder))
    file = posixpath.normpath(posixpath.join(origin, link))
    if file in PROJECT:
        made = PROJECT[file] + ".md"
    elif re.fullmatch(r"examples/[\w-]+\.toml", file):
        made = file.removesuffix(".toml") + ".md"
    elif file == "examples":
        made = "gallery.md"
    elif re.fullmatch(r"notebooks/[\w-]+\.ipynb", file):
        made = file
    elif file.startswith("docs/"):
        made = file.removeprefix("docs/")
    elif (ROOT / file).is_file():
        made = posixpath.join("..", file)  # a download
    else:
        return link
    return os.path.relpath(made, posixpath.dirname(page) or ".").replace(os.sep, "/")
