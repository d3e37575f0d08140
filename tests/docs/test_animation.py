"""The animation of README shows a run of the feeder as it is, for seconds, and stays small."""

from dataclasses import replace

import pytest
from PIL import Image

from docs import animation


@pytest.fixture(scope="module")
def shown() -> animation.Story:
    return animation.story()


def test_it_shows_the_numbers_of_a_run(shown: animation.Story) -> None:
    assert animation.stored_digest() == shown.digest, "run: python docs/animation.py"


def test_another_number_or_word_is_another_digest(shown: animation.Story) -> None:
    moved = shown.estimates.copy()
    moved[3, 7] += 1e-3
    assert replace(shown, estimates=moved).digest != shown.digest
    assert replace(shown, words=shown.words.replace("2.72", "1.72")).digest != shown.digest


def test_the_answer_and_epsilon_are_in_it(shown: animation.Story) -> None:
    assert "at most 2.72 times more likely" in shown.words
    assert shown.interval[0] < shown.truth < shown.interval[1]
    assert shown.unit == "kW"


def test_it_is_small_loops_and_lasts_six_to_ten_seconds() -> None:
    assert animation.GIF.stat().st_size < 1_500_000
    with Image.open(animation.GIF) as image:
        assert image.info["loop"] == 0
        assert 700 <= image.width <= 900
        seconds = 0.0
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            seconds += image.info["duration"] / 1000
    assert 6 <= seconds <= 10
