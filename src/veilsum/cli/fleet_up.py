"""veilsum fleet up: many sites on this machine, to try everything."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from veilsum.cli.asked import AskedPart, parsed
from veilsum.cli.fleet_options import HERE, say, words
from veilsum.cli.guard import AsJson, Debug, guarded

USUAL = "mean kwh --between 0 40"


def up(
    ctx: typer.Context,
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION ...", help="As of veilsum ask.", show_default=USUAL),
    ] = None,
    sites: Annotated[
        int, typer.Option(min=2, metavar="N", help="Sites with generated tables.")
    ] = 3,
    tables: Annotated[
        str | None, typer.Option(metavar="CSV,CSV,...", help="One site for each of these instead.")
    ] = None,
    eps: Annotated[
        float, typer.Option("--eps", "--epsilon", metavar="E", help="What it costs.")
    ] = 1.0,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="secure-sum or pool.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep all folders there, to look at.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """A whole fleet on this machine: it begins, sites join and step, a question is asked and answered.

    Generated tables have the columns kwh, region, days and event. What it prints is of a rehearsal.
    """
    others = [flag for one in ctx.command.params for flag in one.opts if flag[:2] == "--"]
    with guarded(debug):
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            _up(keep.resolve(), _parts(question, others), sites, tables, eps, protocol, as_json)
            say(f"All of it is in {keep}: go to {keep / 'desk'}, or to a site.")
            return
        with tempfile.TemporaryDirectory(prefix="veilsum-") as folder:
            _up(Path(folder), _parts(question, others), sites, tables, eps, protocol, as_json)


def _parts(question: list[str] | None, others: Sequence[str]) -> Sequence[AskedPart]:
    from veilsum.cli.guard import usage_errors

    with usage_errors():
        return parsed(question or USUAL.split(), table=False, others=others)[0]


def _up(
    folder: Path, parts: Sequence[AskedPart], sites: int, tables: str | None, eps: float,
    protocol: str | None, as_json: bool,
) -> None:  # fmt: skip
    from veilsum.cli.ask import report
    from veilsum.cli.fleet_ask import FleetWords, question_of
    from veilsum.cli.guard import existing, usage_errors
    from veilsum.fleet.asking import Asking, check_asked
    from veilsum.fleet.up import LocalFleet, generated
    from veilsum.front.of_fleet_answer import of_fleet_answer

    with usage_errors():
        given = [existing(HERE / one, "table").resolve() for one in words(tables)]
    if not given:
        (folder / "tables").mkdir()
        given = [generated(folder / "tables", f"site{k}", k) for k in range(1, sites + 1)]
    fleet = LocalFleet(folder, given)
    start = time.monotonic()
    with fleet.running():
        asking = Asking(fleet.desk, "../board")
        membership = asking.membership()
        with usage_errors():
            words_of = FleetWords("../board", protocol, more={"epsilon": eps})
            made = question_of(parts, words_of, membership, None)
            check_asked(made, membership)
        posted, _ = asking.post(made, int(time.time()))
        found = asking.wait(posted, say=lambda _: None, clock=time.time, sleep=time.sleep)
    report(of_fleet_answer(found), None, None, as_json, **found.facts)
    if not as_json:
        say(f"A rehearsal on this machine: {len(given)} sites, {time.monotonic() - start:.1f} s.")
