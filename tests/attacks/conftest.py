"""The suite says how many attacks were tried."""

from attack_count import TRIED


def pytest_terminal_summary(terminalreporter):
    if TRIED:
        terminalreporter.section("attacks tried")
        for name, count in sorted(TRIED.items()):
            terminalreporter.line(f"{count:>8,}  {name}")
        terminalreporter.line(f"{sum(TRIED.values()):>8,}  in all")
