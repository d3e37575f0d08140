"""The page: one file that fetches and runs nothing, best first, each row with its promise."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape

import veilsum as vs
from tests.front.studies import DRAWN, GROUPS, MEASURED, READINGS, SEVERAL, call, study, vector
from veilsum.front import Answer, Answers, page
from veilsum.front.of_runs import of_runs
from veilsum.networks import Graph
from veilsum.scenario import Scenario, run

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

HOSTILE = '<script>alert("1")</script>\'"&<img src=x onerror=alert(1)>'


class Tags(HTMLParser):
    """The elements and attributes of a page, and the cells of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def check_harmless(text: str) -> None:
    """No script, no form, nothing that is fetched, no style but the sheet of the page."""
    found = Tags(text)
    assert not set(found.tags) & {"script", "img", "iframe", "object", "link", "form", "base"}
    assert not {name for name in found.attributes if name.startswith("on")}
    assert "style" not in found.attributes, "the policy allows none"
    assert not re.findall(r'(?:src|href)="(?!#)', text)


@pytest.mark.parametrize("text", [SEVERAL, GROUPS, vector(4)], ids=["several", "groups", "vector"])
def test_a_page_is_one_file_that_runs_nothing(text: str) -> None:
    answers = run(Scenario.parse(text, "a/b/small.toml"))
    made = page.document(answers)
    check_harmless(made)
    (sheet,) = re.findall(r"<style>(.*?)</style>", made, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in made
    ids = re.findall(r'\bid="([^"]+)"', made)
    assert len(ids) == len(set(ids)), "names in pictures are unique"
    assert set(re.findall(r"url\(#([^)]+)\)", made)) <= set(ids)
    assert made == page.document(run(Scenario.parse(text, "a/b/small.toml"))), "made again"
    assert "a/b" not in made


def test_the_checks_find_what_is_forbidden() -> None:
    for text in (HOSTILE, "<p style='color:red'>", "<a href='http://x.example'>".replace("'", '"')):
        with pytest.raises(AssertionError):
            check_harmless(text)


def test_best_first_and_a_promise_in_every_row() -> None:
    answers = run(Scenario.parse(GROUPS))
    made = page.document(answers)
    body = made[made.index("<h1>") : made.index("<figure")]
    rows = [row for row in Tags(body).rows if row and row[0] != "name"]
    assert [row[0] for row in rows] == [row.name for row in answers.rows]
    assert [row[1] for row in rows] == [row.status for row in answers.rows]
    lead = made[made.index('class="lead"') :].partition("</p>")[0]
    assert f"<b>{answers.best.name}</b>" in lead
    assert '<span class="badge ' in lead
    assert made.index("Release nothing") < made.index("<table"), "beside the badge that says proved"
    for name, result in answers.results.items():
        if result.guarantee.status != "none":
            sentence = str(escape(str(result.guarantee)))
            assert sentence in made, name


def test_green_is_for_what_is_proved_and_useful() -> None:
    assert page.badge_class("proved") == "good"
    assert page.badge_class("proved", useful=False) == "mend"
    assert page.badge_class("claimed") == "mend"
    for status in ("refuted", "none", "anything else"):
        assert page.badge_class(status) == "bad"


def test_the_study_s_text_is_on_the_page_so_that_it_can_be_made_again() -> None:
    answers = run(Scenario.parse(DRAWN))
    made = page.document(answers)
    (text,) = re.findall(r"<pre>(.*?)</pre>", made, re.DOTALL)
    assert text == str(escape(DRAWN))
    assert answers.origin["seed"] == "3"


@pytest.mark.parametrize("seed", ["", "seed = 6172839405162738"])
def test_the_text_of_measured_signals_is_there_unless_it_has_their_seed(
    tmp_path: Path, seed: str
) -> None:
    file = study(tmp_path, MEASURED, seed=seed)
    made = page.document(run(file))
    digest = Scenario.load(file).digest
    assert ("[signals]" in made) == (not seed)
    assert (digest in made) == (not seed)
    assert "6172839405162738" not in made
    assert "seed</th>" not in made
    for value in READINGS:
        assert f"{value}" not in made


def test_vectors_are_drawn_and_listed() -> None:
    answers = run(Scenario.parse(vector(4)))
    made = page.document(answers)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", made)
    assert "Components with their 95% intervals." in captions
    picture = re.findall(r"<svg.*?</svg>", made, re.DOTALL)[
        captions.index("Components with their 95% intervals.")
    ]
    assert picture.count("clip-path") >= 4, "a bar for each component"
    assert ">component</text>" in picture, "text is text"
    assert 'role="img" aria-label="Components' in picture


def test_pictures_take_the_colour_of_the_page() -> None:
    made = page.document(run(Scenario.parse(SEVERAL)))
    pictures = "".join(re.findall(r"<svg.*?</svg>", made, re.DOTALL))
    assert "currentColor" in pictures
    assert "#000000" not in pictures
    assert not re.search(r"fill(?:=\"|: ?)#ffffff", pictures), "no white behind it"


def test_errors_of_different_targets_are_in_panels_of_their_own() -> None:
    made = page.document(run(Scenario.parse(GROUPS)))
    for kind in ("one signal each, s", "a stream, s", "one signal each, log s"):
        assert f">{kind}</text>" in made


def hostile(measured: bool = False) -> Answers:
    labels = tuple(f"{HOSTILE}{k}" for k in range(5))
    links = np.array([[k, (k + 1) % 5] for k in range(5)])
    net = vs.networks.metropolis(Graph(5, links, labels, name=HOSTILE))
    signals: Any = {"mu": 3.0}
    if measured:
        signals = dict(zip(labels, READINGS.tolist(), strict=False))
    request = vs.privacy.SignalDP(1.0, radius=1.0)
    one = vs.sweep(signals, net, vs.families.Normal(sigma=1.0), request, rounds=8, rng=1).result
    promise = replace(one.guarantee, reason=HOSTILE, caveat=HOSTILE)
    made = of_runs({HOSTILE: replace(one, unit="$<&", stated=promise)}, HOSTILE, text=HOSTILE)
    return replace(made, notes=(HOSTILE,), origin={HOSTILE: HOSTILE}, legend=(HOSTILE,))


@pytest.mark.parametrize("measured", [False, True])
def test_hostile_names_units_and_texts_are_text(measured: bool) -> None:
    answers = hostile(measured)
    for text in (page.document(answers), answers._repr_html_()):
        check_harmless(text)
        assert text.count("&lt;script&gt;alert(") >= 6


def test_of_many_answers_the_page_has_the_first_and_says_so() -> None:
    rows = tuple(Answer(f"v{k}", "mu", float(k), status="proved") for k in range(350))
    made = page.document(Answers("n", "t", "a", rows))
    assert made.count('<td class="name">') == page.MOST_ROWS
    assert f"{350 - page.MOST_ROWS} more are in the table beside this page." in made


def test_a_sheet_without_answers_is_a_page_too() -> None:
    check_harmless(page.document(Answers("n", "t", "a", ())))


@pytest.mark.parametrize("words", [["audit", "--trials", "2000"], ["plan", "--deviation", "1"]])
def test_no_page_has_the_seed_of_measured_noise(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = study(tmp_path, MEASURED, seed="seed = 6172839405162738")
    done = call(words[0], file.name, *words[1:])
    assert done.exit_code == 0, done.output
    pages = [path.read_text() for path in tmp_path.iterdir() if path.suffix in (".html", ".csv")]
    assert any("veilsum" in text for text in pages)
    assert not any("6172839405162738" in text for text in [*pages, done.output])
