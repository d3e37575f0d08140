"""The terminal of the tests has the size that was asked for, and Ctrl-C reaches the command."""

import pytest

from tests.front.terminals import WIDTHS, on_terminal


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_command_sees_its_terminal(columns: int) -> None:
    shown = on_terminal("--version", columns=columns)
    assert (shown.code, shown.errors) == (0, "")
    assert shown.text.startswith("veilsum ")
