"""The gallery: each file of examples/ with its picture, numbers, commands and text.

Pictures are drawn by `python docs/generate.py --draw NAME` from a run of the example. The screen of the
run and a hash of the example are in the picture, so that a test finds one that is stale.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veilsum.front import Answers

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
WITHOUT = {  # examples without a picture
    "households": "its readings are not part of veilsum",
    "masked-feeder": "a masked sum has its answer in one step",
    "secure-feeder": "a secure sum has its answer in one step",
}
DOTS_PER_INCH = 100


def picture_of(example: Path) -> Path:
    """Where the picture of an example is."""
    return ROOT / "docs" / "images" / "examples" / f"{example.stem}.png"


def hash_of(example: Path) -> str:
    """What identifies the text of an example."""
    return hashlib.sha256(example.read_bytes()).hexdigest()


def head_of(text: str) -> tuple[str, list[str], str]:
    """Summary, commands and explanation in the comment that begins an example."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    commands = [line.strip() for line in lines if line.startswith("  ")]
    prose = "\n".join("" if line.startswith("  ") else line for line in lines)
    summary, *about = (part.strip() for part in re.split(r"\n\n+", prose) if part.strip())
    return " ".join(summary.split()), commands, "\n\n".join(about)


def title_of(example: Path) -> str:
    """The title in an example."""
    return str(tomllib.loads(example.read_text(encoding="utf-8"))["title"])


def screen_of(picture: Path) -> str:
    """The screen of the run that a picture shows."""
    from PIL import Image

    with Image.open(picture) as opened:
        return str(opened.info["Description"])


def page(example: Path) -> str:
    """The page of an example in the site."""
    text = example.read_text(encoding="utf-8")
    summary, commands, about = head_of(text)
    parts = [f"# {title_of(example)}", summary, *([about] if about else [])]
    parts += ["## Run it", "```sh\n" + "\n".join(map(_comment, commands)) + "\n```"]
    picture = picture_of(example)
    if example.stem in WITHOUT:
        parts.append(f"There is no picture: {WITHOUT[example.stem]}.")
    else:
        parts += ["## What it gives", f"![{summary}](../images/examples/{picture.name})"]
        parts.append(f"```text\n{screen_of(picture)}\n```")
        parts.append("What the numbers mean is said in [Results](../results.md).")
    parts += [f"## examples/{example.name}", f"```toml\n{text.rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """The page of each example, by file."""
    return {f"examples/{example.stem}.md": page(example) for example in EXAMPLES}


def _comment(command: str) -> str:
    """A command with its remark in parentheses as a comment of the shell."""
    return re.sub(r"\s+\((.*)\)$", r"   # \1", command)


def cards() -> str:
    """All examples as cards with their pictures."""
    parts = ["::::{grid} 1 1 2 2", ":gutter: 3"]
    for example in EXAMPLES:
        summary, _, _ = head_of(example.read_text(encoding="utf-8"))
        parts += [
            "",
            f":::{{grid-item-card}} {title_of(example)}",
            f":link: examples/{example.stem}",
        ]
        parts += [":link-type: doc"]
        if example.stem not in WITHOUT:
            parts += [f":img-bottom: images/examples/{example.stem}.png", f":img-alt: {summary}"]
        parts += ["", summary, ":::"]
    pages = [f"examples/{example.stem}" for example in EXAMPLES]
    tree = ["```{toctree}", ":hidden:", "", *pages, "```"]
    return "\n".join([*parts, "", "::::", "", *tree]) + "\n"


def answers_of(example: Path) -> Answers:
    """Run an example; its sheet says what its warnings say."""
    from veilsum.errors import DivergenceWarning, PrivacyWarning
    from veilsum.scenario import run

    with warnings.catch_warnings():
        for known in (DivergenceWarning, PrivacyWarning):
            warnings.simplefilter("ignore", known)
        return run(example)


def draw(example: Path) -> None:
    """Run an example and draw the errors of its runs."""
    from veilsum.front.plot import errors

    answers = answers_of(example)
    picture = picture_of(example)
    picture.parent.mkdir(exist_ok=True)
    facts = {"Description": str(answers), "Source": hash_of(example)}
    errors(answers).savefig(picture, dpi=DOTS_PER_INCH, metadata=facts)


def pictures() -> dict[str, Callable[[], None]]:
    """What draws each picture, by the name that `--draw` takes."""
    drawn = [example for example in EXAMPLES if example.stem not in WITHOUT]
    return {f"examples/{e.stem}": partial(draw, e) for e in drawn}
