"""veilsum families: what signals may be."""

from __future__ import annotations

import dataclasses

from veilsum.cli.guard import AsJson, Debug, guarded, print_json


def families(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the families: statistic, parameters to estimate, options, support, sensitivity."""
    with guarded(debug):
        from veilsum.families import describe

        rows = describe()
        if as_json:
            print_json({"families": [dataclasses.asdict(row) for row in rows]})
            return
        from veilsum.front.screen import table
        from veilsum.front.terminal import say, width

        columns = ("name", "statistic", "estimates", "options", "support", "sensitivity")
        cells = (
            (r.name, r.statistic, ", ".join(r.parameters), ", ".join(r.options), r.support,
             r.sensitivity)
            for r in rows
        )  # fmt: skip
        say(table(columns, cells, width()))
