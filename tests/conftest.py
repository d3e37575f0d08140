"""Shared by all tests: fixed examples, idle threads that do not spin, `--quick`, `--integration`."""

import os
import socket
import subprocess
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
from hypothesis import settings

from tests.leaks import nothing_left

# Fixed examples: a run that passes here passes everywhere. `--hypothesis-profile=search` looks on.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None)
settings.load_profile("fixed")

ROOT = Path(__file__).resolve().parents[1]
_HOMES = count()

# What `make quick` leaves out: tests that open sockets or start processes, and long proofs.
THOROUGH = (
    "tests/agents/chaos",
    "tests/agents/doctor",
    "tests/agents/config/test_keys_folder.py",
    "tests/agents/config/test_outputs.py",
    "tests/agents/local_cluster",
    "tests/agents/membership",
    "tests/agents/observers",
    "tests/agents/readings",
    "tests/agents/runtime",
    "tests/agents/transport",
    "tests/attacks",
    "tests/auditing",
    "tests/cli",
    "tests/distribution",
    "tests/fleet/board_over_stores",
    "tests/fleet/commands",
    "tests/fleet/pool",
    "tests/fleet/safety",
    "tests/fleet/sources",
    "tests/fleet/status",
    "tests/fleet/sums_on_board",
    "tests/fleet/test_runs.py",
    "tests/integration",
    "tests/light",
    "tests/live",
    "tests/docs",
    "tests/mpi",
    "tests/paper",
    "tests/parity",
    "tests/results",
    "tests/robustness",
    "tests/soak",
    "tests/test_house.py",
    "tests/test_project.py",
    "tests/testing",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="unit and property tests only: no sockets, no processes",
    )
    parser.addoption(
        "--integration",
        action="store_true",
        help="also tests against real servers and browsers, from packages of the system",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--quick"):
        return None
    return str(collection_path.relative_to(ROOT)).startswith(THOROUGH) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--integration"):
        elsewhere = pytest.mark.skip(reason="real servers and browsers: `make test-integration`")
        for item in items:
            if "integration" in item.keywords:
                item.add_marker(elsewhere)
    if not config.getoption("--quick"):
        return
    left = [item for item in items if "thorough" in item.keywords]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if "thorough" not in item.keywords]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is installed, an integration test that is skipped has failed."""
    report = yield
    strict = item.config.getoption("--integration") and os.environ.get("CI") == "true"
    if strict and report.skipped and "integration" in item.keywords:
        report.outcome = "failed"
        report.longrepr = f"skipped, and with CI=true that is a failure: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many attacks tests/attacks tried, in whichever process."""
    tried: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, counts in getattr(report, "user_properties", ()):
                if name == "attacks":
                    tried.update(counts)
    if tried:
        terminalreporter.section("attacks tried")
        for name, count in sorted(tried.items()):
            terminalreporter.line(f"{count:>8,}  {name}")
        terminalreporter.line(f"{tried.total():>8,}  in all")


@pytest.fixture(autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    """A test that leaves a thread, a child process or a socket fails itself, and no later one."""
    with nothing_left():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_index_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests ask is not noted in the index of budgets of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VEILSUM_HOME", str(tmp_path_factory.getbasetemp() / "homes" / "session"))
        yield


@pytest.fixture(autouse=True)
def _own_index_of_budgets(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows have a budget of their own in each test."""
    homes = tmp_path_factory.getbasetemp() / "homes"
    monkeypatch.setenv("VEILSUM_HOME", str(homes / str(next(_HOMES))))


@pytest.fixture(autouse=True)
def _no_sockets_or_processes_when_quick(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that needs more than its own process is not quick: mark it `thorough`."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("this test opens a socket or starts a process: mark it thorough")

    if request.config.getoption("--quick"):
        monkeypatch.setattr(socket.socket, "bind", refuse, raising=False)
        monkeypatch.setattr(socket.socket, "connect", refuse, raising=False)
        monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
