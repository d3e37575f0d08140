"""The package's face: lazy, complete, and the same for people and type checkers."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from veilsum import networks
from veilsum._lazy import home

HEAVY = "{'networkx', 'scipy', 'cvxpy', 'pandas', 'numba'}"


@pytest.mark.thorough
def test_importing_is_cheap() -> None:
    code = f"import sys, veilsum.networks; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.thorough
def test_weights_do_not_need_networkx_or_cvxpy() -> None:
    code = (
        "import sys; from veilsum import networks; networks.metropolis('us-power-grid').beta_star; "
        "print(sorted({'networkx', 'cvxpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", networks.__all__)
def test_every_name_exists_and_none_is_hidden_by_a_submodule(name: Any) -> None:
    assert getattr(networks, name) is getattr(
        import_module(home("veilsum.networks", networks._HOMES[name])), name
    )
    assert find_spec(f"veilsum.networks.{name}") is None


def test_the_table_is_complete() -> None:
    assert set(networks.__all__) == set(networks._HOMES)
    assert set(networks.__all__) <= set(dir(networks))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = networks.nothing
