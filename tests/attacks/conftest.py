"""The suite says how many attacks were tried."""

from typing import Any

from tests.attacks.attack_count import TRIED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if TRIED:
        terminalreporter.section("attacks tried")
        for name, count in sorted(TRIED.items()):
            terminalreporter.line(f"{count:>8,}  {name}")
        terminalreporter.line(f"{sum(TRIED.values()):>8,}  in all")
