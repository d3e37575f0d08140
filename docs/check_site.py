"""Check the links of the built site: `python -m docs.check_site FOLDER`.

Every link inside the site must lead to a file and, where it has one, to an anchor in it; nothing that
a browser loads by itself (scripts, styles, fonts, pictures) may come from elsewhere. Links to other
sites are counted and listed in FOLDER/external-links.txt, not fetched.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LIST = "external-links.txt"


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        """Read the text of a page."""
        super().__init__()
        self.anchors, self.links, self.loaded = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element defines, links to or loads."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag == "link" and "href" in found and found.get("rel") not in ("canonical",):
            self.loaded.add(found["href"])
        elif LOADED.get(tag, "") in found:
            self.loaded.add(found[LOADED[tag]])


@dataclass
class Links:
    """What was found: problems, and links to other sites."""

    problems: list[str] = field(default_factory=list)
    external: set[str] = field(default_factory=set)
    internal: int = 0


def check(site: Path) -> Links:
    """Follow every link of every page of a built site.

    Parameters
    ----------
    site
        The folder with index.html.

    Returns
    -------
    Links
        The problems, each with its page, and the links to other sites.
    """
    files = {path.resolve() for path in site.rglob("*") if path.is_file()}
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in files if path.suffix == ".html"
    }
    links = Links()
    for path, page in sorted(pages.items()):
        where = path.relative_to(site.resolve()).as_posix()
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                links.external.add(link)
                if not parts.netloc and parts.scheme != "mailto":
                    links.problems.append(f"{where} links to {link}, which names no site")
                elif link in page.loaded:
                    links.problems.append(f"{where} loads {link} from another site")
                continue
            links.internal += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if target not in files:
                links.problems.append(f"{where} links to {link}: there is no such file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                links.problems.append(f"{where} links to {link}: there is no such anchor")
    for path in files:
        if path.suffix == ".css":
            for address in re.findall(r"url\(\s*['\"]?((?:https?:)?//[^)]*)", path.read_text()):
                links.problems.append(f"{path.name} loads {address} from another site")
    return links


def main(folder: str) -> int:
    """Print what is wrong, and list the links to other sites."""
    site = Path(folder)
    links = check(site)
    (site / LIST).write_text("".join(f"{link}\n" for link in sorted(links.external)))
    for problem in links.problems:
        print(problem)
    print(
        f"{links.internal} links inside the site, {len(links.problems)} problems; "
        f"{len(links.external)} links to other sites, not fetched: {site / LIST}"
    )
    return 1 if links.problems or not links.internal else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
