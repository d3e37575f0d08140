"""What `veilsum.testing` offers is public, and none of it is offered by production packages."""

import importlib
import subprocess
import sys

import pytest

import veilsum.testing
from veilsum.errors import PrivacyError
from veilsum.testing import PredictableEntropy


@pytest.mark.parametrize("name", veilsum.testing.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(veilsum.testing, name).__doc__


@pytest.mark.parametrize("package", ["privacy", "privacy.exact", "agents", "agents.release"])
def test_no_production_package_offers_predictable_entropy(package: str) -> None:
    module = importlib.import_module(f"veilsum.{package}")
    assert not hasattr(module, "PredictableEntropy")


def test_a_deployment_does_not_load_the_test_tools() -> None:
    code = (
        "import veilsum.agents.runtime.node, veilsum.agents.local_cluster.worker, sys\n"
        "print(*[m for m in sys.modules if m.startswith('veilsum.testing')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_predictable_entropy_must_be_asked_for() -> None:
    with pytest.raises(PrivacyError, match="protects nothing"):
        PredictableEntropy(1)
    one, two = (PredictableEntropy(1, simulation_only=True) for _ in range(2))
    assert one.read(8) == two.read(8)
