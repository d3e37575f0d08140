"""Run a program where the packages of the extras sim and plot are not installed.

python -m tests.light.without -m veilsum.cli ledger show ...
python -m tests.light.without -c "..."

The variable WITHOUT names others in their place, with commas between them. They can be neither imported
nor found by their metadata.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Any

BLOCKED = frozenset({"scipy", "numba", "llvmlite", "pandas", "pyarrow", "matplotlib"})


class Blocker(MetaPathFinder):
    """Says what Python says of a package that is not installed."""

    def __init__(self, blocked: frozenset[str]) -> None:
        self.blocked = blocked

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        del path, target
        if name.partition(".")[0] in self.blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide_metadata(blocked: frozenset[str]) -> None:
    find = Distribution.from_name

    def from_name(name: str) -> Distribution:
        if name.replace("-", "_") in blocked:
            raise PackageNotFoundError(name)
        return find(name)

    Distribution.from_name = staticmethod(from_name)  # type: ignore[method-assign]


def main() -> None:
    import runpy

    named = frozenset(filter(None, os.environ.get("WITHOUT", "").split(",")))
    sys.meta_path.insert(0, Blocker(named or BLOCKED))
    hide_metadata(named or BLOCKED)
    flag, subject, *arguments = sys.argv[1:]
    sys.argv = [subject, *arguments]
    if flag == "-c":
        sys.argv[0] = "-c"
        exec(compile(subject, "<light>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(subject, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
