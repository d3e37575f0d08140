"""Write the generated parts of the docs: tables, help texts, lists of names, numbers.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `python docs/generate.py`
rewrites them all and the JSON Schemas in docs/schema, `--check` fails if one is out of date. The
sections of docs/reproduction.md (tally, reproduction) come from docs/verdicts.json, which
`--verdicts` renews by reproducing the paper; it needs VEILSUM_DATA. `--verdicts ID ...` renews those
experiments and keeps the others. `--compared` measures the errors of docs/compared.md anew.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this folder is not installed

from docs import (  # noqa: E402
    ask_parts,
    compared_tables,
    deploy_files,
    gallery,
    hostile_tables,
    install_tables,
    masked_figure,
    masked_tables,
    readme_parts,
    soak_tables,
)

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
MARK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PACKAGES = (
    "veilsum", "veilsum.networks", "veilsum.families", "veilsum.signals", "veilsum.privacy",
    "veilsum.privacy.sensitivity", "veilsum.auditing",
    "veilsum.theory", "veilsum.paper", "veilsum.paper.allocation",
    "veilsum.algorithms", "veilsum.simulation", "veilsum.simulation.mpi",
    "veilsum.questions", "veilsum.asking", "veilsum.results", "veilsum.front", "veilsum.scenario",
    "veilsum.agents", "veilsum.reports", "veilsum.testing", "veilsum.errors",
)  # fmt: skip


EVERYWHERE = ("as_json", "debug")  # options that most verbs have


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Lay out a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def algorithms() -> str:
    """Every algorithm with its formula and what it is for."""
    from veilsum.algorithms import ALGORITHMS

    rows = []
    for algorithm in ALGORITHMS.values():
        traits = [
            "online" if algorithm.online else "offline",
            *(["ratio"] if algorithm.ratio else []),
            *(["diverges"] if algorithm.diverges else []),
        ]
        rows.append(
            [
                f"`{algorithm.name}`",
                f"`{algorithm.formula}`",
                ", ".join(traits),
                algorithm.reference,
            ]
        )
    return table(["algorithm", "formula", "kind", "reference"], rows)


def families() -> str:
    """Every family with its statistic and sensitivity."""
    from veilsum.families import describe

    rows = [
        [
            f"`{d.name}`",
            f"`{d.statistic}`",
            ", ".join(d.parameters),
            d.support,
            f"`{d.sensitivity}`",
        ]
        for d in describe()
    ]
    return table(["family", "statistic", "unknown", "support", "sensitivity"], rows)


def commands() -> Iterator[tuple[str, Any]]:
    """Give every verb of the command line with its click command, those of groups one by one."""
    import typer.main

    from veilsum.cli.app import app

    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        for verb, one in getattr(command, "commands", {"": command}).items():
            yield f"{name} {verb}".strip(), one


def help_of(command: Any) -> str:
    """First sentence of a command's help."""
    return str(inspect.cleandoc(command.help or "")).split("\n\n")[0].replace("\n", " ")


def cli() -> str:
    """Every verb in a sentence, with the names of its arguments and options: --help explains them."""
    parts = []
    for name, command in commands():
        shown = [p for p in command.params if not getattr(p, "hidden", False)]
        flags = [_flag(p) for p in shown if p.name not in EVERYWHERE]
        parts.append(f"## veilsum {name}\n\n{help_of(command)}\n`{' '.join(flags)}`")
    return "\n\n".join(parts).replace("\n``", "")


def _flag(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return "/".join([max(parameter.opts, key=len), *parameter.secondary_opts])


def api() -> str:
    """Every public name with the first line of its docstring."""
    parts = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        rows = [[f"`{n}`", first_line(getattr(module, n))] for n in public_names(module)]
        parts.append(f"### {package}\n\n{first_line(module)}\n\n{table(['name', ''], rows)}")
    return "\n\n".join(parts)


def public_names(module: Any) -> list[str]:
    """Give `__all__`, or what a module of plain definitions defines."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return list(names)
    return [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]


def first_line(thing: Any) -> str:
    """First sentence of a docstring; a constant or an alias has none of its own."""
    if not (inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing)):
        return "a constant or a type alias"
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


@cache
def main_answers() -> Any:
    """The answers of `make run`."""
    return gallery.answers_of(ROOT / "examples" / "us-power-grid.toml")


def main_errors() -> str:
    """The errors of `make run` offline, one change at a time, and what they assume."""
    results = main_answers().results
    return f"{short_table(results)}\n\n{caveats(results)}"


def mean_square(problem: Any) -> float:
    """The exact root mean square of the total error in the last round."""
    from veilsum import theory

    return float(theory.expected(problem).total[-1, 0])


def once_mixed(problem: Any) -> float:
    """The root mean square of the error that the noise leaves when all agents have the mean.

    Its l2 norm over n agents is sqrt(n) |mean of d|, so its square is the mean of Var d.
    """
    from veilsum.theory.moments import noise_variance

    return float(noise_variance(problem).at(0).mean() ** 0.5)


def caveats(results: Any) -> str:
    """What a reader of the errors must know: norm, domain, what the noise spends, what masks assume."""
    from veilsum.families import LogNormal
    from veilsum.privacy import guarantee_of
    from veilsum.privacy.published import worst_pair

    paper, local, masked = (results[name].problem for name in ("offline-signal", "local", "masked"))
    asked, low, floor = paper.privacy, paper.family.support.low, 100.0
    grid = LogNormal(paper.family.sigma, bounds=(floor, None))
    spent = {
        (s, e): f"delta = {worst_pair(s, e, asked.delta).delta:.3g}"
        for s, e in ((low, 1.0), (floor, 1.0), (floor, 10.0))
    }
    holds = {e: guarantee_of(asked.at(e), paper.algorithm, family=grid).status for e in (1.0, 10.0)}
    assert holds == {1.0: "proved", 10.0: "refuted"}, holds
    near, *_ = LogNormal(1.0).moves(1.0).reason.partition(": ")
    least = paper.source.signals(1, paper.replicas).min()
    paragraphs = (
        f"Errors are l2 norms over {paper.network.size:,} agents at epsilon {asked.epsilon:g}, means of "
        f"{paper.replicas} runs; *once mixed*, only noise is left (root mean square). Down a column only "
        "the noise changes: proved noise costs more here than the paper's. A masked sum changes noise, "
        "rounds, bytes and trust at once.",
        f"For log s no noise can be proved private without a public floor: {near}. At the floor of {low:g} "
        f"here, the paper's noise spends {spent[low, 1.0]}, where {asked.delta:g} is claimed; at {floor:g} "
        f"(the smallest load is {least:.0f}) {spent[floor, 1.0]}: proved. There "
        f"noise without a delta leaves {once_mixed(replace(local, family=grid)):.2g} once mixed. At epsilon "
        f"10 and a floor of {floor:g} it spends {spent[floor, 10.0]}.",
        f"Masked sums assume at most {masked.privacy.colluders:,} colluders and {masked.privacy.absent:,} "
        "absent members, and standard cryptography. Absence costs sampling, and more if it depends on the "
        f"load: {without_largest(paper, masked.privacy.absent):.3g} without the largest loads.",
    )
    return "\n\n".join(textwrap.fill(each, 104) for each in paragraphs)


def without_largest(problem: Any, absent: int) -> float:
    """The l2 error over all agents of the mean without the largest statistics, averaged over runs."""
    n = problem.network.size
    found = problem.family.columns(problem.source.signals(1, problem.replicas))[..., 0]
    ordered = np.sort(found, axis=0)
    return float(n**0.5 * (ordered.mean(axis=0) - ordered[: n - absent].mean(axis=0)).mean())


def short_table(results: Any) -> str:
    """Errors offline: one row for each noise, one column for each algorithm, the status beside them."""

    def row(noise: str, *names: str) -> list[str]:
        runs = [results[name] for name in names]
        (status,) = {str(run.guarantee.status) for run in runs}
        errors = [f"{run.errors.total:.3g}" for run in runs]
        return [noise, status, *errors, f"{once_mixed(runs[0].problem):.2g}"]

    everyone, present = (mean_square(results[name].problem) for name in ("masked", "masked-absent"))
    masked = results["masked-absent"]
    missing = masked.problem.algorithm.session.missing
    sums = [f"{everyone:.2g} if nobody is absent, {present:.3g} if {missing} are"]
    gossip = results["offline-signal"].problem
    cost = f"{gossip.rounds} rounds, {kilobytes(gossip)}"
    algorithms = [f"`{name}`, {cost}" for name in ("average", "jacobi")]
    flooded = f"masked sum, {masked.problem.rounds} rounds, {kilobytes(results['masked'].problem)}"
    return table(
        ["noise", "guarantee", *algorithms, "once mixed"],
        [
            row("the paper's", "offline-signal", "offline-jacobi"),
            row("proved, of each agent's own", "local-average", "local"),
            [flooded, masked.guarantee.status, "", "", *sums],
        ],
    )


def kilobytes(problem: Any) -> str:
    """What an agent sends in all rounds, in words."""
    from veilsum.theory.planning import sent_bytes

    return f"{sent_bytes(problem, problem.rounds) / 1e3:,.0f} kB"


def graphs() -> str:
    """Every named graph with its options."""
    from veilsum.networks import names

    rows = [
        [f"`{g.name}`", ", ".join(f"`{o}`" for o in g.options.split(", ") if o), g.description]
        for g in names()
    ]
    return table(["graph", "options", ""], rows)


def examples() -> str:
    """Every example by its title."""
    return "\n".join(
        f"- [{gallery.title_of(path)}](../examples/{path.name})" for path in gallery.EXAMPLES
    )


def agents_measured() -> str:
    """What `make bench-agents` measured last, and what it would measure now for the first time."""
    from benchmarks.agents import ROWS

    return _measured("agents.json", ROWS)


def benchmarks() -> str:
    """What `make bench` measured last, and what it would measure now for the first time."""
    from benchmarks.ask import EXPECTED

    return _measured("results.json", EXPECTED)


def growth() -> str:
    """What `make bench-growth` measured last: every point, the slopes, what explains a jump."""
    from benchmarks.growth import FIGURE, RESULTS, series, slope

    if not RESULTS.exists():
        return "Not measured yet."
    rows = json.loads(RESULTS.read_text())["rows"]
    cells, slopes = [], []
    for name, graph, points in series(rows):
        sizes = (slope(points, name), slope(points, name, "process"))
        slopes.append([graph, name, *(f"{power:.2f}" for power in sizes)])
        for p in points:
            counts = [f"{p['agents']:,}", str(p["degree"]), str(p["runs"])]
            cost = [
                f"{1e3 * p['seconds']:.3g}",
                f"{p['nanoseconds']:.2f}",
                f"{p['process'] / 1e6:,.0f}",
            ]
            cells.append([graph, *counts, *cost, p["path"], p.get("why", "")])
    heads = ["graph", "agents", "degree", "runs", "ms a round", "ns a weight and column", "MB"]
    powers = table(["graph", "over", "time grows with power", "memory with power"], slopes)
    shown = f"![Time and memory of a round](images/{FIGURE.name})\n\n" if FIGURE.exists() else ""
    return f"{shown}{powers}\n\n{table([*heads, 'how', 'a jump is explained by'], cells)}"


def _measured(name: str, expected: tuple[str, ...] = ()) -> str:
    rows = json.loads((ROOT / "benchmarks" / name).read_text())["rows"]
    cells = [[r["what"], f"{r['measured']:.3g}", r["target"], r["detail"]] for r in rows]
    found = {r["what"] for r in rows}
    cells += [[what, "not yet", "", ""] for what in expected if what not in found]
    return table(["what", "measured", "target", "detail"], cells)


def reproduction() -> str:
    """What `veilsum reproduce` found last, statement by statement."""
    from veilsum.paper.experiment import FACTS

    found = json.loads((ROOT / "docs" / "verdicts.json").read_text())["experiments"]
    parts = []
    for experiment in found:
        rows = [
            [
                f["verdict"],
                f["source"] + ("" if f["can_fail"] else FACTS),
                f["statement"],
                f["sentence"],
            ]
            for f in experiment["findings"]
        ]
        head = f"### {experiment['title']}\n\n{experiment['reference']}; `{experiment['command']}`"
        body = (
            table(["verdict", "source", "statement", "numbers"], rows)
            if rows
            else experiment["reason"]
        )
        parts.append(f"{head}\n\n{body}")
    return "\n\n".join(parts)


def tally() -> str:
    """How many statements have which verdict, the paper's and our own, facts apart."""
    from veilsum.paper.experiment import counts

    found = json.loads((ROOT / "docs" / "verdicts.json").read_text())["experiments"]
    counted = counts(f for experiment in found for f in experiment["findings"])
    rows = [[whose, *map(str, each.values())] for whose, each in counted.items()]
    return table(["statements of", *map(str, counted["paper"])], rows)


def batches() -> str:
    """Noise of the sum of a stream, with fresh noise and in batches, and what an estimate lacks."""
    from veilsum.privacy import Batches

    sizes, fresh = (100, 1_000, 10_000), Batches(growth=1.0)
    rows = []
    for schedule in (
        fresh, Batches(1.25), Batches(2.0), Batches(2.0, longest=24), Batches(2.0, longest=168),
    ):  # fmt: skip
        name = "fresh noise" if schedule.trivial else f"growth {schedule.growth:g}"
        limit = f", longest {schedule.longest}" if schedule.longest else ""
        noise = [schedule.deviation(T) for T in sizes]
        less = [f"{fresh.deviation(T) / d:.1f}" for T, d in zip(sizes, noise, strict=True)]
        cells = [f"{d:.1f}" for d in noise]
        rows.append([name + limit, *cells, " / ".join(less), f"{schedule.stalest(sizes[-1]):,}"])
    heads = [f"T = {T:,}" for T in sizes]
    return table(["noise in Delta/eps", *heads, "times less", "lacks at most"], rows)


def _ranks() -> dict[str, Any]:
    return dict(json.loads((ROOT / "benchmarks" / "ranks.json").read_text()))


def scaling_measured() -> str:
    """Rounds on 1, 2 and 4 ranks, measured and modelled."""
    from veilsum.simulation.mpi.model import compare

    report, rows = _ranks(), []
    found = compare(report)
    for c in found:
        columns = "1 column" if c.columns == 1 else f"{c.columns} columns"
        times = [f"{1e3 * seconds:.1f} ms" for seconds in (c.seconds, c.model.seconds)]
        sizes = (c.held, c.model.memory, c.peak, c.model.loading)
        held = [f"{size / 1e6:.0f} MB" for size in sizes]
        rows.append([str(c.ranks), f"`{c.algorithm}`, {columns}", *times, *held, f"{c.halo:.0f}"])
    heads = ["ranks", "rounds of", "measured", "model", "held", "model", "loading", "model", "halo"]
    about = (
        f"{report['jobs'][0]['agents']:,} agents on {report['cores']} cores; times are within a "
        f"factor of {max(c.factor for c in found):.2g} of the model, the best of 60 rounds each."
    )
    return f"{about}\n\n{table(heads, rows)}"


def scaling_patches() -> str:
    """How many agents a patch of a random geometric graph hears beyond it."""
    rows = [
        [
            str(p["patches"]), f"{p['agents']:,}", f"{p['mean']:.0f}", f"{p['largest']}",
            f"{p['largest'] / p['agents'] ** 0.5:.1f}", str(p["neighbours"]),
        ]
        for p in _ranks()["patches"]
    ]  # fmt: skip
    heads = ["patches", "agents each", "heard, mean", "heard, largest", "over sqrt", "neighbours"]
    return table(heads, rows)


def scaling_predicted() -> str:
    """10^8 and 10^9 agents on 16 to 256 nodes, by the model."""
    from veilsum.simulation.mpi import Machine, Workload, predict

    cores = 32
    machine = Machine(0.3 * 200e9 / cores, 2e-6, 12.5e9 / cores, 10e-9)
    rows = []
    for agents in (10**8, 10**9):
        for nodes in (16, 64, 256):
            for title, work in (
                ("`average`, 1 column", Workload(agents)),
                (
                    "`learn`, 8 replicas x (noiseless, private)",
                    Workload(agents, 6, 8, 2, online=True),
                ),
            ):
                cost = predict(work, machine, nodes * cores)
                rows.append(
                    [
                        f"10^{len(str(agents)) - 1}", str(nodes), title,
                        f"{1e3 * cost.seconds:.3g} ms", f"{1e3 * cost.exchange:.2g} ms",
                        f"{cost.memory * cores / 1e9:.3g} GB",
                        f"{cost.loading * cores / 1e9:.3g} GB",
                    ]
                )  # fmt: skip
    heads = [
        "agents",
        "nodes",
        "rounds of",
        "a round",
        "of it exchange",
        "held per node",
        "loading",
    ]
    return table(heads, rows)


def link_states() -> str:
    """The states of an agent's links, drawn and as tables."""
    from veilsum.agents.protocol import states

    parts = []
    tables: list[tuple[str, Any]] = [
        ("session", states.SESSION),
        ("reachability", states.REACHABILITY),
    ]
    for title, entries in tables:
        heads, *rows = states.transitions(entries)
        drawn = f"```mermaid\n{states.diagram(entries)}\n```"
        parts += [f"The {title} of a link:", drawn, table(heads, rows)]
    return "\n\n".join(parts)


PARTS: dict[str, Callable[[], str]] = {
    f.__name__.replace("_", "-"): f
    for f in (
        algorithms,
        families,
        cli,
        api,
        main_errors,
        graphs,
        examples,
        benchmarks,
        growth,
        agents_measured,
        link_states,
        reproduction,
        tally,
        batches,
        scaling_measured,
        scaling_patches,
        scaling_predicted,
        *readme_parts.PARTS,
        *ask_parts.PARTS,
        *masked_tables.PARTS,
        *hostile_tables.PARTS,
        *deploy_files.PARTS,
        *install_tables.PARTS,
        *soak_tables.PARTS,
        *compared_tables.PARTS,
    )
}


def schemas() -> dict[Path, str]:
    """The JSON Schemas of scenario.toml and agent.toml, by file."""
    from veilsum.agents.config import agent_schema
    from veilsum.scenario.json_schema import scenario_schema

    made = {"scenario": scenario_schema(), "agent": agent_schema()}
    folder = ROOT / "docs" / "schema"
    return {
        folder / f"{name}.schema.json": json.dumps(each, indent=1) + "\n"
        for name, each in made.items()
    }


def renew(text: str, made: dict[str, str]) -> str:
    """Put every generated part of a page anew."""

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        made[name] = made.get(name) or PARTS[name]()
        return f"{match[1]}{made[name]}\n{match[3]}"

    return MARK.sub(fill, text)


def draw(names: list[str]) -> None:
    """Draw the pictures of the pages anew, or some of them."""
    drawn = {"evidence": draw_evidence, **gallery.pictures()}
    unknown = set(names) - set(drawn)
    if unknown:
        raise SystemExit(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(drawn)}")
    for name in names or drawn:
        drawn[name]()


def draw_evidence() -> None:
    """What audits found, and how a masked sum works."""
    from veilsum.auditing import suite
    from veilsum.front.pictures import evidence

    entries = [*suite.proved(), *suite.broken()]
    reports = [entry.audit(trials_for(entry.name), rng=1) for entry in entries]
    drawn: Any = evidence(reports).get_figure(root=True)
    drawn.savefig(ROOT / "docs" / "images" / "evidence.png", dpi=160)
    masked_figure.write(ROOT / "docs" / "images")


def trials_for(name: str) -> int:
    """Fewer for exact releases that are drawn one by one."""
    return 100_000 if name.startswith("exact") and "laplace" not in name else 1_000_000


def judge(ids: list[str]) -> None:
    """Reproduce the paper, or some experiments, and keep the verdicts in `docs/verdicts.json`."""
    from veilsum import paper
    from veilsum.paper.reproduction import lasting

    with TemporaryDirectory() as folder:
        reports = paper.reproduce(paper.find(ids), Path(folder), seed=0)
    missing = [f"{report.id}: {report.reason}" for report in reports if not report.findings]
    if missing:
        raise SystemExit(f"no verdicts for {'; '.join(missing)}")
    path = ROOT / "docs" / "verdicts.json"
    made = lasting(reports)
    held = json.loads(path.read_text(encoding="utf-8"))["experiments"] if ids else []
    known = {each["id"]: each for each in [*held, *made["experiments"]]}
    made["experiments"] = [known[id] for id in paper.names()]
    text = json.dumps(made, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def main() -> int:
    """Rewrite the pages, or check them; with --draw the pictures, with --verdicts those, too."""
    if "--draw" in sys.argv:
        draw(sys.argv[sys.argv.index("--draw") + 1 :])
    if "--compared" in sys.argv:
        compared_tables.renew()
    if "--verdicts" in sys.argv:
        judge(sys.argv[sys.argv.index("--verdicts") + 1 :])
    made: dict[str, str] = {}
    stale = []
    renewed = {page: renew(page.read_text(), made) for page in PAGES}
    renewed |= schemas() | deploy_files.files()
    for page, new in renewed.items():
        if not page.exists() or page.read_text() != new:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text(new)
    print(f"out of date: {', '.join(stale)}" if stale else "everything is up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
