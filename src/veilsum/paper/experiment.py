"""What an experiment is: scenarios, what is tabulated and drawn of their results, and claims.

    scenarios --jobs--> Job --run--> Result --measure--> Measurement (tables) --draw--> figure
                                                                              --check--> Finding

The scenarios are TOML files in `paper/scenarios`, as users write them. What a scenario cannot name
(a custom algorithm, signals derived from readings) is put in by one function per experiment,
`adapt`, which takes a job and returns it with another problem. Drawings read the tables and compute
nothing, so the tables have every plotted number.

A verdict never depends on the seed. Checks read expected errors, which are exact (`tabulate`);
where there are none, what is measured is so far from the threshold, or repeated so often, that the
chance of another verdict is below 1e-6, and the check says why.

Claims are rows of `claims.toml`: the words of the paper, our statement, the function that judges
it, and the line between one verdict and another with whose line it is. What no measurement could
decide otherwise, because it follows from a proof, has `can_fail = false` and is a fact.
"""

from __future__ import annotations

import hashlib
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

from veilsum.errors import DivergenceWarning, LimitWarning, PrivacyWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from veilsum.results import Result
    from veilsum.scenario import Job

Tables = Mapping[str, Any]  # name -> pandas.DataFrame; "" is the main one

QUICK_ROUNDS, QUICK_REPLICAS = 20, 2


class Verdict(StrEnum):
    """The verdict on a statement, from the mildest to the severest.

    Examples
    --------
    >>> Verdict("corrected") is Verdict.CORRECTED
    True
    """

    CONFIRMED = "confirmed"
    UNINFORMATIVE = "true, uninformative"  # says nothing that agents without a network do not reach
    CORRECTED = "corrected"  # true once something in it is changed, or only in part
    REFUTED = "refuted"


SEVERITY = {verdict: k for k, verdict in enumerate(Verdict)}


class ClaimSource(StrEnum):
    """Whose statement a claim is.

    Examples
    --------
    >>> str(ClaimSource.PAPER)
    'paper'
    """

    PAPER = "paper"
    VEILSUM = "veilsum"


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Parameters
    ----------
    verdict
        Whether the statement holds.
    sentence
        The numbers, in a sentence.

    Examples
    --------
    >>> Finding(Verdict.CONFIRMED, "The ratio is 1.02.").verdict
    <Verdict.CONFIRMED: 'confirmed'>
    """

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Measurement:
    """What an experiment measured.

    Parameters
    ----------
    tables
        pandas tables by name, which are written as CSV; "" is the main one.
    results
        Results that are drawn but not written.

    Examples
    --------
    >>> import pandas as pd
    >>> Measurement({"": pd.DataFrame({"x": [1.0]})}).table.x[0].item()
    1.0
    """

    tables: Tables
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> Any:
        """The main table."""
        return self.tables[""]


@dataclass(frozen=True)
class Claim:
    """A row of `claims.toml`: a statement, the function that judges it, and where its line is.

    Parameters
    ----------
    statement
        The statement, ending with a full stop.
    test
        The function that turns a measurement and this row into a finding, by module and name.
    quote
        The words of the paper, as its TeX source has them; none for a statement of veilsum's own.
        Headings state nothing and are not quoted.
    where
        The place in the paper.
    of
        What the function is applied to, such as the name of a theorem.
    value, threshold, threshold_by
        What is compared with the threshold, the threshold, and who set it: "paper" or "us".
    can_fail
        Whether a measurement could have come out otherwise; if not, it is a fact.
    erratum
        The errata about it.
    id, experiment
        Its name, and the experiment that measures it.

    Examples
    --------
    >>> one = Claim("One is odd.", lambda _measured, _row: judged(1 % 2 == 1, "1 = 2 x 0 + 1."))
    >>> str(one.source), str(one.check(Measurement({})).verdict)
    ('veilsum', 'confirmed')
    """

    statement: str
    test: str | Callable[[Measurement, Claim], Finding]
    quote: str = ""
    where: str = ""
    of: tuple[str, ...] = ()
    value: str = ""
    threshold: Any = None
    threshold_by: str = ""
    can_fail: bool = True
    erratum: tuple[int, ...] = ()
    id: str = ""
    experiment: str = ""

    @property
    def source(self) -> ClaimSource:
        """The paper if it is quoted, else veilsum."""
        return ClaimSource.PAPER if self.quote else ClaimSource.VEILSUM

    def check(self, measured: Measurement) -> Finding:
        """Judge the statement by a measurement."""
        if not isinstance(self.test, str):
            return self.test(measured, self)
        module, _, name = self.test.partition(".")
        found: Finding = getattr(import_module(f"veilsum.paper.{module}"), name)(measured, self)
        return found

    @property
    def line(self) -> str:
        """Where the line between two verdicts is, and whose it is, as a sentence; or nothing."""
        if not self.value:
            return ""
        owner = {"paper": "the paper's", "us": "ours"}[self.threshold_by]
        return f"The line is {owner}: {self.value}."

    def finding(self, measured: Measurement) -> dict[str, Any]:
        """The row as it is recorded: words, verdict, numbers."""
        found = self.check(measured)
        line = list(self.threshold) if isinstance(self.threshold, tuple) else self.threshold
        return {
            "id": self.id, "statement": self.statement, "source": str(self.source),
            "verdict": str(found.verdict), "sentence": f"{found.sentence} {self.line}".rstrip(),
            "quote": self.quote, "where": self.where, "threshold": line,
            "threshold_by": self.threshold_by, "can_fail": self.can_fail,
            "erratum": list(self.erratum),
        }  # fmt: skip


@cache
def claims() -> dict[str, Claim]:
    """The rows of `claims.toml` by id, in their order."""
    text = (resources.files("veilsum.paper") / "claims.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = [
        {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in tomllib.loads(text)["claim"]
    ]
    return {row["id"]: Claim(**row) for row in rows}


def claims_of(experiment: str) -> tuple[Claim, ...]:
    """The rows that an experiment measures."""
    return tuple(claim for claim in claims().values() if claim.experiment == experiment)


def _no_progress(name: str) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Context:
    """How to run an experiment.

    Parameters
    ----------
    seed
        Seed of signals and noise.
    quick
        Whether to run 20 rounds and 2 replicas at most.
    progress
        Called with the name of every variant when its run begins.

    Examples
    --------
    >>> Context(seed=3).quick
    False
    """

    seed: int = 0
    quick: bool = False
    progress: Callable[[str], None] = _no_progress


def _unchanged(job: Job) -> Job:
    """Run the scenario as it is."""
    return job


@dataclass(frozen=True)
class Experiment:
    """A figure or a table: scenarios, what is measured and drawn; its claims are in `claims.toml`.

    Parameters
    ----------
    id
        Name on the command line and of the output files.
    title, reference
        What it shows, and where it is in the paper.
    measure
        From the experiment and a context to tables.
    draw
        From the tables to a figure.
    scenarios
        TOML texts (`shipped`); none where everything is computed without a run.
    adapt
        Puts into a job what a scenario cannot name, such as a custom algorithm.

    Examples
    --------
    >>> from veilsum import paper
    >>> experiment = paper.EXPERIMENTS["fig-directed"]
    >>> experiment.variants, experiment.needs_data
    (['average', 'push-sum'], False)
    >>> [job.problem.rounds for job in experiment.jobs(Context(quick=True))]
    [20, 20]
    """

    id: str
    title: str
    reference: str
    measure: Callable[[Experiment, Context], Measurement]
    draw: Callable[[Measurement], Figure]
    scenarios: tuple[str, ...] = ()
    adapt: Callable[[Job], Job] = _unchanged

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The rows of `claims.toml` that it measures."""
        return claims_of(self.id)

    @property
    def variants(self) -> list[str]:
        """The names of all variants of the scenarios, in order."""
        return [variant["name"] for text in self.scenarios for variant in _variants(text)]

    @property
    def needs_data(self) -> bool:
        """Whether a scenario reads recorded signals."""
        return any(_readings(text) for text in self.scenarios)

    def jobs(self, context: Context) -> list[Job]:
        """Build all variants of the scenarios; `MissingDataError` if readings are not there."""
        return [self.adapt(job) for text in self.scenarios for job in _jobs(text, context)]


def shipped(*names: str) -> tuple[str, ...]:
    """The texts of scenarios in `paper/scenarios`, by file name without .toml."""
    folder = resources.files("veilsum.paper") / "scenarios"
    return tuple((folder / f"{name}.toml").read_text(encoding="utf-8") for name in names)


def run(job: Job, context: Context) -> Result:
    """Run a job. Guarantees that are not proved give no warning here: the verdicts state them."""
    context.progress(job.name)
    with warnings.catch_warnings():
        for category in (PrivacyWarning, DivergenceWarning, LimitWarning):
            warnings.simplefilter("ignore", category)
        return job.run()


def _variants(text: str) -> list[dict[str, Any]]:
    return list(tomllib.loads(text)["variant"])


def _readings(text: str) -> str | None:
    """The file of recorded signals that a scenario names."""
    found: str | None = tomllib.loads(text)["signals"].get("file")
    return found


def _jobs(text: str, context: Context) -> list[Job]:
    """The jobs of one scenario, with the seed and the size of the context."""
    from veilsum.paper import data
    from veilsum.scenario import Scenario

    readings = _readings(text)
    folder: Any = (
        data.locate(readings).parent if readings else resources.files("veilsum.paper") / "scenarios"
    )
    scenario = Scenario.parse(text, folder=folder).with_(seed=context.seed)
    return [_sized(job, context) for job in scenario.jobs()]


def _sized(job: Job, context: Context) -> Job:
    """The job on the one copy of its network, short if the context is quick."""
    problem = replace(job.problem, network=_one_copy(job.problem.network))
    if context.quick:
        rounds = min(problem.rounds, QUICK_ROUNDS)
        problem = replace(problem, rounds=rounds, replicas=min(problem.replicas, QUICK_REPLICAS))
    return replace(job, problem=problem)


_NETWORKS: dict[str, Any] = {}


def _one_copy(network: Any) -> Any:
    """The same network for the same weights, so that its spectrum is computed once per process."""
    if network.dynamic:
        return network
    weights = network.at(1)
    found = hashlib.sha256(network.kind.encode())
    for part in (weights.indptr, weights.indices, weights.data):
        found.update(part.tobytes())
    return _NETWORKS.setdefault(found.hexdigest(), network)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on an experiment: the severest of its claims."""
    return max(verdicts, key=SEVERITY.__getitem__)


def judged(holds: bool, sentence: str, otherwise: Verdict = Verdict.REFUTED) -> Finding:
    """Confirmed if it holds."""
    return Finding(Verdict.CONFIRMED if holds else otherwise, sentence)


FACTS = ", facts"  # after the source: what no measurement could decide otherwise


def counts(findings: Iterable[Mapping[str, Any]]) -> dict[str, dict[Verdict, int]]:
    """How many statements have which verdict: the paper's and veilsum's, facts apart.

    A statement of the paper is identified by its quote, one of veilsum by its words: tested on two
    networks, or under two schemes, it is still one statement, and its worst verdict counts.
    """
    verdicts: dict[tuple[str, str], Verdict] = {}
    for each in findings:
        group = each["source"] + ("" if each.get("can_fail", True) else FACTS)
        key, verdict = (group, each["quote"] or each["statement"]), each["verdict"]
        both = (verdicts.get(key, Verdict.CONFIRMED), Verdict(verdict))
        verdicts[key] = max(both, key=SEVERITY.__getitem__)
    found = Counter((group, verdict) for (group, _), verdict in verdicts.items())
    groups = [f"{source}{kind}" for source in ClaimSource for kind in ("", FACTS)]
    return {group: {v: found[group, v] for v in Verdict} for group in groups}
