"""veilsum graph: a network's shape, and how fast each choice of weights agrees on it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import AsJson, Debug, guarded, print_json
from veilsum.errors import MissingExtraError, NetworkError

if TYPE_CHECKING:
    from veilsum.networks import Graph

ACCURACY = 1e-3
FASTEST_AGENTS, FASTEST_LINKS = 50, 1000  # some seconds; sixty took 15, a hundred minutes
SLOW = 10_000  # rounds
DIRECTED = ("row-stochastic", "column-stochastic")
NUMBERS = {  # of weights, directed or not: heading, key and format
    True: (
        ("least weight", "least_weight", ".4g"),
        ("largest weight", "largest_weight", ".4g"),
    ),
    False: (
        ("beta*", "beta_star", ".8f"),
        ("spectral gap", "spectral_gap", ".3e"),
        (f"rounds to {ACCURACY:g}", "rounds", ",d"),
    ),
}


def graph(
    source: Annotated[str, typer.Argument(metavar="FILE|NAME", help="An edge list, or a name.")],
    weights: Annotated[list[str] | None, typer.Option(help="Only these weights.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Links have a direction.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Describe a graph (ring:20, torus:30x40, us-power-grid, links.csv) and its weights."""
    with guarded(debug):
        made = _load(source, directed)
        shape = _shape(made)
        rows = [_row(made, scheme) for scheme in _schemes(made, weights)]
        facts = {**shape, "weights": rows, "warnings": _warnings(made, rows)}
        if as_json:
            print_json(facts)
        else:
            _show(facts)


def _load(source: str, directed: bool) -> Graph:
    """The graph; a name or a file that is not there is wrong usage."""
    from pathlib import Path

    from veilsum import networks

    known = {row.name for row in networks.names()}
    name = source.partition(":")[0].strip().lower().replace("_", "-").replace(" ", "-")
    try:
        return networks.load(source, **({"directed": True} if directed else {}))
    except NetworkError as problem:
        if Path(source).is_file() and name not in known:
            raise
        raise typer.BadParameter(str(problem), param_hint="FILE|NAME") from None


def _shape(graph: Graph) -> dict[str, Any]:
    degrees = graph.in_degrees if graph.directed else graph.degrees
    return {
        "name": graph.name,
        "agents": graph.size,
        "links": len(graph.links),
        "directed": graph.directed,
        "degrees": {
            "least": int(degrees.min()),
            "mean": round(float(degrees.mean()), 4),
            "most": int(degrees.max()),
        },
        "connected": bool(graph.is_connected),
        "bipartite": bool(graph.is_bipartite),
    }


def _schemes(graph: Graph, asked: list[str] | None) -> list[str]:
    """The schemes asked for, or all that suit the graph in kind and size."""
    from veilsum.networks import SCHEMES

    if asked:
        known = [*SCHEMES, *DIRECTED]
        for scheme in asked:
            if scheme not in known:
                text = f"found {scheme!r}; allowed: {', '.join(known)}"
                raise typer.BadParameter(text, param_hint="--weights")
        return asked
    if graph.directed:
        return list(DIRECTED)
    small = graph.size <= FASTEST_AGENTS and len(graph.links) <= FASTEST_LINKS
    return [scheme for scheme in SCHEMES if small or scheme != "fastest"]


def _row(graph: Graph, scheme: str) -> dict[str, Any]:
    """What the weights guarantee, or the reason why they do not exist here."""
    from veilsum import networks

    try:
        if scheme in DIRECTED:
            return {"scheme": scheme} | _directed(graph, scheme)
        mixing = networks.weigh(graph, scheme)
        return {
            "scheme": mixing.scheme,
            "beta_star": mixing.beta_star,
            "spectral_gap": mixing.spectral_gap,
            "rounds": mixing.rounds_to(ACCURACY),
        }
    except (NetworkError, MissingExtraError) as problem:
        advice = re.sub(r"networks\.(\w+)\(graph\)", _plain, str(problem))
        return {"scheme": scheme, "error": advice}


def _plain(call: re.Match[str]) -> str:
    return call[1].replace("_", "-")


def _directed(graph: Graph, scheme: str) -> dict[str, Any]:
    """The least and the largest stationary weight of an agent, in units of an equal weight."""
    from veilsum import networks

    row = scheme == "row-stochastic"
    made = networks.row_stochastic(graph) if row else networks.column_stochastic(graph)
    weights = made.stationary * made.size
    return {"least_weight": float(weights.min()), "largest_weight": float(weights.max())}


def _warnings(graph: Graph, rows: list[dict[str, Any]]) -> list[str]:
    """What a user should know before choosing weights and an algorithm."""
    found = []
    if not graph.is_connected:
        parts = int(graph.components.max()) + 1
        kind = "strongly connected components" if graph.directed else "components"
        found.append(f"The graph has {parts} {kind}: agents of different ones never agree.")
    if graph.directed:
        found.append(
            "The graph is directed: averaging over row-stochastic weights gives a weighted mean; "
            "push-sum over column-stochastic weights gives the mean."
        )
    elif graph.is_bipartite and graph.degrees.min() == graph.degrees.max():
        found.append(
            "The graph is regular and bipartite: metropolis weights are periodic and never agree "
            "(erratum 4); lazy-metropolis weights are the default there."
        )
    slow = [row["rounds"] for row in rows if "rounds" in row]
    if slow and min(slow) > SLOW:
        found.append(
            f"Agreement to {ACCURACY:g} takes {min(slow):,} rounds at best; the algorithm jacobi "
            "or "
            "chebyshev needs far fewer, at no cost of privacy."
        )
    return found


def _show(facts: dict[str, Any]) -> None:
    from veilsum.front.screen import table
    from veilsum.front.terminal import say, say_sentence, width

    degrees, yes = facts["degrees"], {True: "yes", False: "no"}
    kind = "in-degree" if facts["directed"] else "degree"
    rows = (
        ("agents", f"{facts['agents']:,}"),
        ("links", f"{facts['links']:,}{' (directed)' if facts['directed'] else ''}"),
        (kind, f"{degrees['least']} to {degrees['most']}, mean {degrees['mean']:.3g}"),
        ("connected", yes[facts["connected"]]),
        ("bipartite", yes[facts["bipartite"]]),
    )
    say(table((facts["name"], ""), rows, width()))
    say("")
    columns = NUMBERS[any("least_weight" in row for row in facts["weights"])]
    cells = (
        (
            row["scheme"],
            *(format(row[key], form) if key in row else "-" for _, key, form in columns),
        )
        for row in facts["weights"]
    )
    say(table(("weights", *(title for title, _, _ in columns)), cells, width()))
    say("")
    for row in facts["weights"]:
        if "error" in row:
            say_sentence(f"{row['scheme']}: {row['error']}")
    for warning in facts["warnings"]:
        say_sentence(f"warning: {warning}")
