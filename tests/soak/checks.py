"""What must hold after the year, and the figures that are printed and written down."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.soak.site import SoakSite
from tests.soak.year import BUDGET, Year, estimates
from veilsum.agents.ledger import read_ledger, verify

MEMORY_PER_RELEASE = 400.0  # bytes; 16 of each release, and 32 of a run of slots without one
MEMORY_NOISE = 12e6  # bytes by which a process may grow besides
LEDGER_PER_RELEASE = 1200.0  # bytes on the disk, and as much again of each ledger for its log
LEDGER_BASE = 2_000_000.0
LOG_PER_DAY = 40_000.0  # bytes of one site, with all that happens to it
FILES_PER_SITE = 12  # ledger, log, index, lock, readings and those that were rotated, log
AGREED = 1e-6  # relative; that of estimates with the mean of all releases


def violations(year: Year) -> list[str]:
    """Everything that should not be, in words; the agents still run."""
    found = [*year.violations]
    for site in year.sites.values():
        found += site.record.violations
        found += [f"reading {n} of {site.label} was lost" for n in site.record.lost]
        surplus = site.record.late_surplus
        if surplus and not site.counts["clock steps"]:
            found.append(f"{surplus} readings of {site.label} are surplus, and no clock was set")
    found += _mean_violations(year)
    year.close()
    for site in year.sites.values():
        found += _ledger_violations(site)
    return found + _resource_violations(year)


def _ledger_violations(site: SoakSite) -> list[str]:
    """The ledger is intact, and has what the record has."""
    found = verify(site.ledger)
    wrong = [f"{site.label}: {problem}" for problem in found.problems]
    contents = read_ledger(site.ledger)
    recorded = sum(site.record.releases)
    if len(contents.entries) != recorded:
        wrong.append(
            f"{site.label}: the ledger has {len(contents.entries)} releases, {recorded} were made"
        )
    origins = Counter(name for entry in contents.entries for name in entry.origins)
    wrong += [f"{site.label}: an origin has {n} releases" for n in origins.values() if n > 1]
    return wrong


def _mean_violations(year: Year) -> list[str]:
    """No mass is lost: every estimate is the mean of what the members have released."""
    sums, weight = 0, 0
    for name in year.members:
        node = year.sites[name].node
        if node is None:
            return [f"{name} does not run at the end"]
        for released in node.agents[name].ledger.released():
            sums, weight = sums + released.sums[0], weight + released.weight
    mean = sums / weight
    return [
        f"{name} estimates {found[0] if found else None}, and the mean of all releases is {mean}"
        for name, found in estimates(year).items()
        if not found or abs(found[0] - mean) > AGREED * abs(mean)
    ]


def _resource_violations(year: Year) -> list[str]:
    samples, found = year.samples, []
    first, *_, end = samples.second_half
    allowed = MEMORY_NOISE + MEMORY_PER_RELEASE * (end.releases - first.releases)
    if end.memory - first.memory > allowed:
        found.append(
            f"memory grew by {end.memory - first.memory:,} bytes in the second half, allowed are "
            f"{allowed:,.0f}"
        )
    last = samples.taken[-1]
    sites = len(year.sites)
    most = LEDGER_BASE * sites + LEDGER_PER_RELEASE * last.releases
    if last.ledgers > most:
        found.append(f"ledgers have {last.ledgers:,} bytes, allowed are {most:,.0f}")
    most = LOG_PER_DAY * sites * (last.hours / 24 + 1)
    if last.logs > most:
        found.append(f"logs have {last.logs:,} bytes, allowed are {most:,.0f}")
    most = samples.taken[0].files + FILES_PER_SITE * sites
    if samples.largest("files") > most:
        found.append(f"{samples.largest('files')} files were open, allowed are {most:.0f}")
    threads = samples.largest("threads") - samples.taken[0].threads
    return found + ([f"{threads} threads were left"] if threads > 0 else [])


def figures(year: Year, seconds: float) -> dict[str, Any]:
    """The numbers of a year that has passed."""
    counts: Counter[str] = Counter(year.counts)
    for site in year.sites.values():
        counts.update(site.counts)
    records = [site.record for site in year.sites.values()]
    rotations = [site.meter.rotations for site in year.sites.values()]
    samples = year.samples
    last = samples.taken[-1]
    return {
        "agents": year.size.agents,
        "slots": year.size.hours,
        "readings written": sum(record.written for record in records),
        "readings released": sum(sum(record.releases) for record in records),
        "releases per reading, most": max(max(record.releases) for record in records),
        "passed over, budget": sum(sum(record.passed["budget"]) for record in records),
        "passed over, surplus: a clock was set, or before the first slot": sum(
            sum(record.passed["surplus"]) for record in records
        ),
        "readings lost": sum(len(record.lost) for record in records),
        "dearest day, epsilon": max(record.dearest_day for record in records),
        "budget of a day, epsilon": BUDGET,
        "starts": counts["starts"],
        "kills": counts["kills"],
        "kills within a charge": counts["killed in a charge"],
        "boots": counts["reboots"],
        "clock steps": counts["clock steps"],
        "partitions": counts["partitions"],
        "rotations by rename": sum(each["rename"] for each in rotations),
        "rotations by copying and truncating": sum(each["copytruncate"] for each in rotations),
        "ends by a full disk": counts["disk full"],
        "members that joined": sum(
            year.sites[name].record.written > 0 for name in (year.joins, year.newcomer)
        ),
        "members that left": int(year.sites[year.leaver].left),
        "epochs": year.manifest.epoch,
        "turns of nodes": year.steps,
        "largest memory, MB": round(samples.largest("memory") / 1e6, 1),
        "memory a release, bytes": round(samples.slope("memory"), 1),
        "ledgers, MB": round(last.ledgers / 1e6, 1),
        "ledger a release, bytes": round(last.ledgers / max(last.releases, 1), 1),
        "logs, MB": round(last.logs / 1e6, 2),
        "open files, most": samples.largest("files"),
        "seconds": round(seconds, 1),
    }
