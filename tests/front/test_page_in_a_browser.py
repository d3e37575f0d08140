"""Pages of runs and questions in a real browser: dark and light, on a phone, printed, without a complaint."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.browsing import COMPLAINTS, PHONE, browse, width_on_a_phone
from tests.front.studies import GROUPS, MEASURED, study, vector
from veilsum import questions
from veilsum.asking import ask, forecasts
from veilsum.front import Answers
from veilsum.front.of_ask import of_ask
from veilsum.front.of_question_plan import of_question_plan
from veilsum.front.page import document
from veilsum.scenario import run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning"),
]
STUDIES = {"groups": GROUPS, "vector": vector(12), "measured": MEASURED}
HISTOGRAM = questions.histogram("kwh", between=(0, 40), bins=8)
MEAN = questions.mean("kwh", between=(0, 40))
TABLE = {"kwh": np.random.default_rng(1).normal(12, 4, 300)}


def sheet(name: str, folder: Path) -> Answers:
    """The sheet of a study, of answered questions, or of what they would be worth."""
    if name == "answers":
        return of_ask(ask(TABLE, MEAN, HISTOGRAM, epsilon=1, budget=folder / "table.budget"))
    if name == "worth":
        return of_question_plan(forecasts([MEAN, HISTOGRAM], 300, epsilon=1.0))
    return run(study(folder, STUDIES[name]))


@pytest.fixture(params=[*STUDIES, "answers", "worth"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = document(sheet(request.param, tmp_path))
    (tmp_path / "page.html").write_text(made, encoding="utf-8")
    return tmp_path / "page.html"


def test_light_dark_and_paper(file: Path) -> None:
    shots = {}
    for scheme in (0, 1):  # dark and light
        shot = file.with_name(f"{scheme}.png")
        said = browse(
            file, "--window-size=1100,1600", f"--screenshot={shot}",
            f"--blink-settings=preferredColorScheme={scheme}",
        )  # fmt: skip
        assert not [line for line in said.splitlines() if any(w in line for w in COMPLAINTS)]
        shots[scheme] = shot
    assert brightness(shots[0]) < 0.3 < 0.7 < brightness(shots[1])
    browse(file, "--no-pdf-header-footer", f"--print-to-pdf={file.with_suffix('.pdf')}")
    printed = file.with_suffix(".pdf").read_bytes()
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 3


def brightness(shot: Path) -> float:
    """Of a picture, from 0 to 1."""
    from PIL import Image

    with Image.open(shot) as image:
        return float(np.asarray(image.convert("L")).mean() / 255)


def test_nothing_is_wider_than_a_phone(file: Path) -> None:
    assert width_on_a_phone(file) == PHONE
    text = file.read_text()
    file.write_text(text.replace("<h1>", f"<h1>{'x' * 60}", 1).replace("break-word", "normal"))
    assert width_on_a_phone(file) > PHONE, "the weakened variant"
