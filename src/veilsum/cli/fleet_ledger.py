"""veilsum fleet ledger: what a site has spent, by question and in all."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime

import typer

from veilsum.cli.fleet_options import HERE, rows, say
from veilsum.cli.guard import AsJson, Debug, guarded, print_json

ledger = typer.Typer(help="What this site has spent: show, report, verify.", no_args_is_help=True)


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%d %B %Y").lstrip("0")


def _titles(site: object) -> dict[str, str]:
    """Questions by their digests."""
    from veilsum.fleet.answers import questions_on
    from veilsum.fleet.site import Site

    assert isinstance(site, Site)
    return {
        one.terms.hex(): f"{one.question.title()} ({one.asker.name})"
        for seat in site.seats.values()
        for one in questions_on(seat.board)
    }


@ledger.command()
def show(debug: Debug = False) -> None:
    """What is spent and what is left of this site's budget."""
    with guarded(debug):
        from veilsum.fleet.site import Site

        with Site(HERE) as site:
            source = site.needed_data().source
            spent = site.ledger.spent(source).epsilon
            left = site.ledger.left(source, int(time.time())).epsilon
            say(f"{site.config.name}: {left:g} of {site.config.budget.epsilon:g} epsilon is left.")
            rows(
                [("spent", f"{spent:g} at the dearest moment"), ("budget", str(site.config.budget))]
            )


@ledger.command()
def report(as_json: AsJson = False, debug: Debug = False) -> None:
    """Every question that was answered, when, and what it cost."""
    with guarded(debug):
        from veilsum.fleet.site import Site

        with Site(HERE) as site:
            titles, lines = _titles(site), site.ledger.report()
        if as_json:
            print_json(
                {
                    "lines": [
                        {
                            "source": one.source, "question": one.what, "title": titles.get(one.what, ""),
                            "fleet": one.board, "charges": one.charges, "first_at": one.first_at,
                            "last_at": one.last_at, "epsilon": one.cost.epsilon, "delta": one.cost.delta,
                        }
                        for one in lines
                    ]
                }
            )  # fmt: skip
            return
        if not lines:
            say("Nothing was released: nothing is spent.")
        for one in lines:
            what = (
                titles.get(one.what, one.what[:12]) if one.what else "in all, at the dearest moment"
            )
            times = f"{one.charges} release{'' if one.charges == 1 else 's'}"
            days = " to ".join(dict.fromkeys((_day(one.first_at), _day(one.last_at))))
            say(f"{what}: epsilon {one.cost.epsilon:g}, {times}, {days}")


@ledger.command()
def verify(debug: Debug = False) -> None:
    """Whether every charge stands as it was written, and the sums are theirs."""
    with guarded(debug):
        from veilsum.fleet.site import Site

        with Site(HERE) as site, closing(site.file.db):
            count = site.ledger.verify()
        many = "charge stands as it was" if count == 1 else "charges stand as they were"
        say(f"{count} {many} written.")
