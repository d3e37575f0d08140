"""How much memory is available, and how many rounds fit into it."""

from __future__ import annotations

import os
from pathlib import Path

from veilsum._validate import found
from veilsum.errors import CostError

ALGORITHM = 500  # bytes of one round's coefficients as Python objects
NORM = 80  # bytes of one round's error norms, and of the sums that they are made from
USABLE = 0.9  # of the memory that is available


def check_rounds(rounds: int) -> None:
    """Raise for more rounds than fit into memory, before anything loops over them."""
    room, needed = available_memory(), float(min(rounds, 10**30)) * (ALGORITHM + NORM)
    if room is not None and needed > USABLE * room:
        most = int(USABLE * room / (ALGORITHM + NORM))
        raise CostError(
            f"{found(rounds)} rounds need about {in_bytes(needed)} of memory for their "
            f"coefficients and error norms alone, and {in_bytes(room)} are free; ask for "
            f"{most:,} rounds or fewer"
        )


def available_memory() -> int | None:
    """Bytes that this process may still take: the machine's, its control group's, its limit's."""
    found = [_of_machine(), _of_group(), _of_limit()]
    known = [value for value in found if value is not None]
    return min(known) if known else None


def in_bytes(value: float) -> str:
    """ "12.5 GB"."""
    if value >= 1e16:
        return f"{value / 1e12:.0e} TB"
    for name, size in (("TB", 1e12), ("GB", 1e9)):
        if value >= size:
            return f"{value / size:,.1f} {name}"
    return f"{value / 1e6:,.0f} MB"


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _of_group() -> int | None:
    """What is left of the control group's memory, version 2 or 1."""
    places = (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    )
    for most, used in places:
        try:
            limit = Path("/sys/fs/cgroup", most).read_text().strip()
            spent = Path("/sys/fs/cgroup", used).read_text().strip()
            if limit != "max":
                return max(int(limit) - int(spent), 0)
        except (OSError, ValueError):
            continue
    return None


def _of_limit() -> int | None:
    """`ulimit -v`, less what is mapped already."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(most - pages * os.sysconf("SC_PAGE_SIZE"), 0)
    except (ImportError, OSError, ValueError):
        return None
