"""A network as a table for notebooks: name, size, links, weights and some of the labels."""

from __future__ import annotations

from typing import Any

from veilsum import _html

MOST_LABELS = 8


def describe_html(network: Any) -> str:
    """The table; nothing is computed for it, and everything in it is escaped.

    Parameters
    ----------
    network : Network
        Fixed or changing.

    Returns
    -------
    str
        HTML.
    """
    graph = network.graph
    rows: list[tuple[object, object]] = [("agents", f"{network.size:,}")]
    if graph is not None:
        kind = "directed links" if graph.directed else "links"
        rows.append((kind, f"{len(graph.links):,}"))
    rows += [
        ("weights", f"{getattr(network, 'scheme', '') or network.kind}, {network.kind}"),
        ("changes", "from round to round" if network.dynamic else "never"),
        ("labels", _some(network.labels)),
    ]
    name = "" if graph is None or not graph.name else f" {graph.name}"
    return _html.facts(rows, f"Network{name}")


def _some(labels: Any) -> str:
    shown = ", ".join(str(label) for label in labels[:MOST_LABELS])
    return shown if len(labels) <= MOST_LABELS else f"{shown}, ... ({len(labels):,} in all)"
