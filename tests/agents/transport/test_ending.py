"""A process that has used zenoh ends with its exit code, whatever zenoh's threads do meanwhile."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys
{load}
from veilsum.agents.transport.ending import leave
atexit.register(print, "at exit")
class Last:
    def __del__(self):
        print("finalised")
last = Last()
print("work")
leave({code})
print("went on")
"""


def ended(load: str, code: int) -> tuple[int, list[str]]:
    program = PROGRAM.format(load=load, code=code)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("code", [0, 3])
def test_it_does_what_belongs_to_an_end_and_leaves_python_as_it_is(code: int) -> None:
    assert ended("import zenoh", code) == (code, ["work", "at exit"])


def test_without_zenoh_python_ends_as_usual() -> None:
    assert ended("", 3) == (0, ["work", "went on", "at exit", "finalised"])
