"""The generated parts of pages about `ask`: real screens of real commands on examples/ask/meters.csv.

The table is drawn, of nobody: 300 readings of 150 households, from `drawn` with a fixed seed. What a command
draws comes from the operating system; here alone it comes from a fixed seed, so that pages stay as they are.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions import QUESTIONS, By, Category, Question
from veilsum.questions._moments import G

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "examples" / "ask" / "meters.csv"
SEED = 28
REGIONS, HEATINGS = ("north", "south", "west"), ("gas", "electric", "heat pump")


def drawn() -> str:
    """The example's table: two days of 150 households, in which heat pumps need more."""
    rng = np.random.default_rng(SEED)
    lines = ["household,kwh,region,heating"]
    for household in range(1, 151):
        region = rng.choice(REGIONS, p=(0.5, 0.3, 0.2))
        heating = rng.choice(HEATINGS, p=(0.55, 0.25, 0.2))
        usual = rng.normal(15.0 if heating == "heat pump" else 11.0, 3.0)
        for _ in range(2):
            kwh = min(max(usual + rng.normal(0.0, 2.0), 0.5), 39.5)
            lines.append(f"h{household:03},{kwh:.1f},{region},{heating}")
    return "\n".join(lines) + "\n"


@contextmanager
def repeatable(seed: int = SEED) -> Iterator[None]:
    """Noise from a seed, which protects nothing: for pages alone."""
    from veilsum.privacy.exact.entropy import SystemEntropy
    from veilsum.testing.entropy import PredictableEntropy

    source = PredictableEntropy(seed, simulation_only=True)
    with patch.object(SystemEntropy, "read", lambda _, count: source.read(count)):
        yield


def screens(*commands: str) -> str:
    """What commands print, one after the other, in a folder that has the table."""
    from typer.testing import CliRunner

    from veilsum.cli.app import app

    parts = []
    home = {"VEILSUM_HOME": "home"}  # of the index of budgets: nothing of this is noted elsewhere
    with TemporaryDirectory() as folder, chdir(folder), repeatable(), patch.dict(os.environ, home):
        shutil.copy(TABLE, folder)
        for command in commands:
            done = CliRunner().invoke(app, shlex.split(command)[1:])
            if done.exit_code:
                raise SystemExit(f"{command}: {done.output}")
            parts.append(f"$ {command}\n{done.stdout.rstrip()}")
    text = "\n\n".join(parts).replace(f"{folder}{os.sep}", "")
    return f"```text\n{text}\n```"


HISTOGRAM = "veilsum ask histogram kwh meters.csv --between 0 40 --bins 8 --eps 1 --limit 3"


def first_ask() -> str:
    """The README's screen."""
    return screens(HISTOGRAM)


def ask_mean() -> str:
    """A mean in which a household counts once."""
    return screens(
        "veilsum ask mean kwh meters.csv --between 0 40 --eps 1 --id household --limit 3"
    )


def ask_several() -> str:
    """Two questions of some rows."""
    return screens(
        "veilsum ask mean kwh --between 0 40 and histogram heating --categories 'gas,electric,heat pump' "
        "meters.csv --where region=north --eps 2"
    )


def ask_plan() -> str:
    """What a mean would be worth."""
    return screens("veilsum plan mean kwh --between 0 40 --rows 300 --eps 1")


def questions() -> str:
    """Every question, and how it is asked."""
    from docs.generate import table

    from veilsum.questions.options import spelling

    rows = [[f"`{spelling(name).usage}`", kind.about] for name, kind in QUESTIONS.items()]
    return table(["question", ""], rows)


def sensitivities() -> str:
    """How far a record moves the vector of each question's examples: in, out, and by group."""
    from docs.generate import table

    rows: dict[tuple[str, ...], None] = {}  # each once
    for name, kind in QUESTIONS.items():
        examples = kind.examples()
        whole = [one for one in examples if not one.partial]
        for one in whole or examples:
            for k, statistic in enumerate(one.stage_statistics):
                known = "private number" if one.partial else _norms(statistic)
                of = (", gradients" if k else ", moments") if name == "logistic" else ""
                title = f"`{name}`{of}"
                moved = _moved_out(one, k), _moved_by_group(one)
                rows[title, str(statistic.dimension), known, *moved] = None
    return table(
        ["question", "entries", "all in", "may be out", "two groups"], list(map(list, rows))
    )


def _moved_out(question: Question, k: int) -> str:
    try:
        return _norms(question.within().stage_statistics[k])
    except QuestionError:
        return "not asked"


def _moved_by_group(question: Question) -> str:
    try:
        return _norms(By(question=question, group=Category("group", ["a", "b"])).statistic)
    except QuestionError:
        return "not asked"


def _norms(statistic: Statistic) -> str:
    """l1 and l2 where the largest entry of a record is 1; of gradients, where its longest x is."""
    most = float(max(np.abs(statistic.low).max(), np.abs(statistic.high).max()))
    unit = G if most == 2 * G + 1 else most
    l1, l2 = float(statistic.l1), float(statistic.l2 or statistic.l1)
    return f"{l1 / unit:.4g}, {l2 / unit:.4g}"


PARTS = (first_ask, ask_mean, ask_several, ask_plan, questions, sensitivities)
