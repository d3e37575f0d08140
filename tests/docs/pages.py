"""The pages that the repository publishes, and how a link of theirs is read."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
PROJECT = [
    ROOT / f"{name}.md"
    for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "DATA-LICENSES")
]


def name_of(page: Path) -> str:
    """A page by its path, for messages and test names."""
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Path and anchor of every link of a page that stays in the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    found: dict[str, int] = {}
    made = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        made.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return made
