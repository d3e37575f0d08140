"""Every report of this suite carries how many attacks its test tried, from any worker process."""

from collections.abc import Generator

import pytest

from tests.attacks.attack_count import TRIED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and TRIED:
        report.user_properties.append(("attacks", dict(TRIED)))
        TRIED.clear()
    return report
