"""The package's face: lazy, complete, and the same for people and type checkers."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from murmura import network

HEAVY = "{'networkx', 'scipy', 'cvxpy', 'pandas', 'numba'}"


def test_importing_is_cheap():
    code = f"import sys, murmura.network; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_weights_do_not_need_networkx_or_cvxpy():
    code = (
        "import sys; from murmura import network; network.metropolis('us-power-grid').beta_star; "
        "print(sorted({'networkx', 'cvxpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", network.__all__)
def test_every_name_exists_and_none_is_hidden_by_a_submodule(name):
    assert getattr(network, name) is getattr(
        import_module(f"murmura.network.{network._HOMES[name]}"), name
    )
    assert find_spec(f"murmura.network.{name}") is None


def test_the_table_is_complete():
    assert set(network.__all__) == set(network._HOMES)
    assert set(network.__all__) <= set(dir(network))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = network.nothing
