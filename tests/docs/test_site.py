"""The site: every page has a place in it, links and anchors lead somewhere, nothing is fetched."""

import html
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from docs.generate import PACKAGES, public_names

from docs import check_site, gallery, site_api, site_pages
from tests.docs.pages import DOCS, PROJECT, ROOT, anchors, links, name_of
from tests.live.conftest import CHROMIUM, FLAGS

TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.DOTALL | re.MULTILINE)


def listed() -> list[str]:
    """What the toctrees of the front page have."""
    front = (ROOT / "docs" / "index.md").read_text()
    entries = [line for tree in TREE.findall(front) for line in tree.splitlines()]
    return [line for line in entries if line and not line.startswith(":")]


def test_every_page_is_in_one_toctree() -> None:
    pages = [p.relative_to(ROOT / "docs").with_suffix("").as_posix() for p in DOCS]
    pages += [page for file, page in site_pages.PROJECT.items() if page != "index"]
    pages += [f"notebooks/{path.stem}" for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    assert sorted(listed()) == sorted(page for page in pages if page != "index")


@pytest.mark.parametrize("page", [*PROJECT, *DOCS], ids=name_of)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    for path, anchor in links(page):
        target = page.parent / path if path else page
        assert target.exists(), f"{name_of(page)} links to {path}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)} links to {path}#{anchor}"


def test_a_wrong_anchor_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`: three\n\n```text\n# not a heading\n```\n\n## Same\n\n## Same\n")
    assert anchors(page) == {"one-two-three", "same", "same-1"}


@pytest.mark.parametrize(
    ("page", "link", "leads"),
    [
        ("agents", "../CHANGELOG.md", "project/changelog.md"),
        ("index", "../examples/feeder.toml", "examples/feeder.md"),
        ("tutorials/first", "../agents.md", "../agents.md"),
        ("tutorials/first", "../../examples/feeder.toml", "../examples/feeder.md"),
        ("project/architecture", "docs/errata.md", "../errata.md"),
        ("project/contributing", "README.md", "../index.md"),
        ("agents", "../src/veilsum/cli/agent.py", "../src/veilsum/cli/agent.py"),
        ("cli", "#verbs", "#verbs"),
        ("index", "../notebooks/1-first-estimate.ipynb", "notebooks/1-first-estimate.ipynb"),
        ("notebooks/1-first-estimate", "../docs/privacy.md", "../privacy.md"),
        ("notebooks/1-first-estimate", "2-your-own-algorithm.ipynb", "2-your-own-algorithm.ipynb"),
    ],
)
def test_links_into_the_repository_lead_to_pages_of_the_site(
    page: str, link: str, leads: str
) -> None:
    text = [f"[x]({link})"]
    site_pages.adapt(None, page, text)
    assert text == [f"[x]({leads})"]


def test_every_public_name_has_a_page() -> None:
    made = site_api.pages()
    for package in PACKAGES:
        for name in public_names(importlib.import_module(package)):
            home = site_api.homes()[package, name]
            assert f"<{home}>`" in made[f"api/{package}.rst"]
            assert f"api/{home}.rst" in made
    assert len(made) > 300


def escaped(text: str) -> list[str]:
    lines = text.splitlines()
    site_api.escape(None, "", "", None, None, lines)
    return lines


def test_docstrings_are_read_as_they_are_written() -> None:
    assert escaped("E |x_i| * 2 of `a_b`") == [r"E \|x\_i\| \* 2 of `a_b`"]
    assert escaped("Code:\n\n    a * b\n\nand text") == [
        "Code:", "", "::", "", "    a * b", "", "and text",
    ]  # fmt: skip
    parameters = "Parameters\n----------\nx_1 : int\n    At most |y|."
    assert escaped(parameters)[2:] == ["x_1 : int", r"    At most \|y\|."]
    assert escaped("Examples\n--------\n>>> 2 * x_\n4")[2:] == [">>> 2 * x_", "4"]


@pytest.mark.parametrize("example", gallery.EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_a_picture_of_its_own_run(example: Path) -> None:
    page = gallery.page(example)
    assert "veilsum run" in page
    assert example.read_text().rstrip() in page
    if example.stem in gallery.WITHOUT:
        assert "There is no picture" in page
        return
    from PIL import Image

    with Image.open(gallery.picture_of(example)) as picture:
        drawn = picture.info
    assert drawn["Source"] == gallery.hash_of(example), (
        f"python docs/generate.py --draw examples/{example.stem}"
    )
    assert drawn["Description"] in page


def test_the_screen_of_a_picture_is_that_of_a_run() -> None:
    example = ROOT / "examples" / "feeder.toml"
    assert gallery.screen_of(gallery.picture_of(example)) == str(gallery.answers_of(example))


def write_site(folder: Path, **pages: str) -> check_site.Links:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return check_site.check(folder)


def test_the_check_of_the_site_follows_links_and_anchors(tmp_path: Path) -> None:
    good = '<a href="b.html#there">b</a><a href="https://example.org/">x</a>'
    found = write_site(tmp_path, a=good, b='<p id="there"><a href="#there">up</a></p>')
    assert (found.problems, found.internal) == ([], 2)
    assert found.external == {"https://example.org/"}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('<a href="c.html">c</a>', "no such file"),
        ('<a href="a.html#nowhere">c</a>', "no such anchor"),
        ('<a href="#nowhere">c</a>', "no such anchor"),
        ('<img src="missing.png">', "no such file"),
        ('<script src="https://cdn.example/x.js"></script>', "from another site"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "from another site"),
        ('<a href="http://">nothing</a>', "names no site"),
    ],
)
def test_the_check_of_the_site_finds(tmp_path: Path, bad: str, says: str) -> None:
    (problem,) = write_site(tmp_path, a=bad).problems
    assert problem.startswith("a.html")
    assert says in problem


def test_the_check_of_the_site_reads_styles(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@font-face { src: url('https://fonts.example/a.woff2') }")
    (problem,) = write_site(tmp_path, a="<p>").problems
    assert "fonts.example" in problem


def test_an_empty_site_is_not_a_success(tmp_path: Path) -> None:
    assert check_site.main(str(tmp_path)) == 1


def test_every_page_beside_the_readme_is_a_page_of_the_site() -> None:
    assert {path.name for path in ROOT.glob("*.md")} <= set(site_pages.PROJECT)


def test_the_hosted_site_is_built_as_here() -> None:
    hosted = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert hosted["sphinx"]["fail_on_warning"]
    assert (ROOT / hosted["sphinx"]["configuration"]).is_file()
    locks = re.findall(r"-r (\S+)", " ".join(hosted["build"]["jobs"]["install"]))
    assert locks
    assert all((ROOT / lock).is_file() for lock in locks)


def build(site: Path, doctrees: Path) -> None:
    """What `make site` runs."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    places = ["-j", "2", "-d", str(doctrees), str(ROOT / "docs"), str(site)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run(
        [*command, *places], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


def documents_every_name(site: Path) -> None:
    for home in set(site_api.homes().values()):
        page = check_site.Page((site / "api" / f"{home}.html").read_text())
        anchor = f"module-{home}" if home in PACKAGES else home
        assert anchor in page.anchors, f"the page of {home} does not document it"


def shows_what_is_typed(site: Path) -> None:
    """Options and strings outside code keep their hyphens and quotes."""
    assert "<h2>Begin with init --fleet<" in (site / "deploy.html").read_text()
    assert '"ring:21" or "grid.csv"' in html.unescape(
        (site / "api/veilsum.estimate.html").read_text()
    )


def can_be_read_and_searched_offline(site: Path) -> None:
    """From the disk, in the dark and on a phone: nothing is fetched, and the search finds."""
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        problems, asked = [], []
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "gallery", "notebooks/1-first-estimate", "api/veilsum.estimate"):
            page.goto((site / f"{name}.html").as_uri())
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, name
        page.goto(f"{(site / 'search.html').as_uri()}?q=jacobi")
        expect(page.locator("#search-results li").first).to_be_visible(timeout=30_000)
        browser.close()
    assert problems == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.integration
def test_the_site_builds_without_a_warning_resolves_its_links_and_is_searched_offline(
    tmp_path: Path,
) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    site = tmp_path / "site"
    build(site, tmp_path / "doctrees")
    found = check_site.check(site)
    assert found.problems == []
    assert found.internal > 10_000
    documents_every_name(site)
    shows_what_is_typed(site)
    can_be_read_and_searched_offline(site)
