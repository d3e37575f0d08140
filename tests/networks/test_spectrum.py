import json
import subprocess
import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest

from veilsum.errors import NetworkError
from veilsum.networks import (
    Mixing,
    extreme_eigenvalues,
    lazy_metropolis,
    load,
    max_degree,
    metropolis,
)
from veilsum.networks.spectrum import lanczos

GRAPHS = {
    "random-geometric": "random-geometric:200,0.15,1",
    "erdos-renyi": "erdos-renyi:200,0.05,1",
    "random-regular": "random-regular:200,3,1",
    "watts-strogatz": "watts-strogatz:200,4,0.1,1",
    "square torus": "torus:15x15",
    "flat torus": "torus:4x50",
    "path": "path:200",
    "star": "star:200",
    "complete": "complete:200",
    "hypercube": "hypercube:8",
    "feeder": "feeder:50,30,5",
    "odd ring": "ring:201",
}


@pytest.mark.parametrize("scheme", [metropolis, lazy_metropolis, max_degree])
@pytest.mark.parametrize("source", GRAPHS.values(), ids=GRAPHS.keys())
def test_lanczos_agrees_with_dense_to_1e_8(source: Any, scheme: Any) -> None:
    if scheme is metropolis and source in ("hypercube:8", "torus:4x50"):
        pytest.skip("periodic: see test_weights")
    weights = scheme(source).weights
    dense = np.linalg.eigvalsh(weights.toarray())
    found = extreme_eigenvalues(weights, method="lanczos")
    assert found == pytest.approx((dense[-2], dense[0]), abs=1e-8)
    assert extreme_eigenvalues(weights, method="dense") == pytest.approx(found, abs=1e-8)


def test_least_eigenvalue_next_to_minus_one() -> None:
    """A bipartite graph with one faint self weight: lambda_n = -1 + O(1e-4)."""
    A = nx.to_numpy_array(nx.cycle_graph(200)) / 2
    A[0, 0] = A[1, 1] = 0.01
    A[0, 1] = A[1, 0] = 0.49
    mixing = Mixing.of(A)
    dense = np.linalg.eigvalsh(A)
    assert -1 < dense[0] < -0.9998
    assert extreme_eigenvalues(mixing.weights, method="lanczos")[1] == pytest.approx(
        dense[0], abs=1e-10
    )
    assert mixing.beta_star == pytest.approx(abs(dense[0]), abs=1e-12)


def test_two_clusters_joined_by_a_faint_link() -> None:
    """lambda_2 within 1e-6 of 1, far from the rest."""
    A = np.kron(np.eye(2), np.full((100, 100), 0.01))
    A[0, 0] -= 1e-4
    A[100, 100] -= 1e-4
    A[0, 100] = A[100, 0] = 1e-4
    dense = np.linalg.eigvalsh(A)
    assert 1 - dense[-2] < 3e-6
    assert extreme_eigenvalues(Mixing.of(A).weights, method="lanczos")[0] == pytest.approx(
        dense[-2], abs=1e-13
    )


@pytest.mark.parametrize("scheme", [metropolis, lazy_metropolis])
def test_us_power_grid_against_arpack(scheme: Any) -> None:
    from scipy.sparse.linalg import LinearOperator, eigsh

    mixing = scheme("us-power-grid")
    A, n = mixing.weights, mixing.size
    # A - 2J puts the constant vector at -1: below lambda_n, so that it hides neither end
    deflated = LinearOperator((n, n), matvec=lambda x: A @ x - 2 * x.mean(), dtype=np.float64)
    top = eigsh(deflated, k=1, which="LA", ncv=60, tol=1e-12, return_eigenvectors=False)[0]
    low = eigsh(A, k=1, which="SA", ncv=60, tol=1e-12, return_eigenvectors=False)[0]
    assert (mixing.lambda_2, mixing.lambda_n) == pytest.approx((top, low), abs=1e-10)


def test_us_power_grid_has_the_known_gap() -> None:
    assert metropolis("us-power-grid").beta_star == pytest.approx(0.99985746234, abs=1e-10)


@pytest.mark.parametrize("source", ["torus:41x61", "torus:50x50", "path:3000", "hypercube:12"])
def test_closed_forms_above_the_dense_size(source: Any) -> None:
    weights = lazy_metropolis(source).weights
    if source.startswith("torus"):
        sides = [int(s) for s in source[6:].split("x")]
        slow, fast = (
            np.cos(2 * np.pi / max(sides)),
            [np.cos(np.pi * (s - s % 2) / s) for s in sides],
        )
        expected = ((1 + (1 + slow) / 2) / 2, (1 + sum(fast) / 2) / 2)
    elif source.startswith("path"):
        expected = ((1 + np.cos(np.pi / 3000)) / 2, (1 - np.cos(np.pi / 3000)) / 2)
    else:
        expected = (1 - 1 / 12, 0.0)
    assert extreme_eigenvalues(weights) == pytest.approx(expected, abs=1e-12)


def test_same_numbers_every_time() -> None:
    weights = metropolis("us-power-grid").weights
    assert extreme_eigenvalues(weights) == extreme_eigenvalues(weights)


def test_no_convergence_is_an_error_with_the_residual() -> None:
    weights = lazy_metropolis("path:3000").weights
    with pytest.raises(
        NetworkError, match=r"did not converge to 1e-10 in 100 .*residual [0-9.]+e-"
    ):
        extreme_eigenvalues(weights, steps=100)
    with pytest.raises(NetworkError, match="did not converge"):
        extreme_eigenvalues(weights, steps=1)


def test_options_are_checked() -> None:
    weights = lazy_metropolis("ring:5").weights
    with pytest.raises(NetworkError, match="method must be one of auto, dense, lanczos"):
        extreme_eigenvalues(weights, method="magic")
    with pytest.raises(NetworkError, match="tol must be"):
        extreme_eigenvalues(weights, tol=0.0)


def test_two_agents() -> None:
    found = extreme_eigenvalues(lazy_metropolis("path:2").weights, method="lanczos")
    assert found == pytest.approx((0, 0), abs=1e-15)


# VmHWM and not ru_maxrss: the latter counts what the parent had in memory when it forked.
MILLION = """
import json, re, time
from veilsum import networks
start = time.perf_counter()
mixing = networks.lazy_metropolis("torus:1000x1000")
values = mixing.lambda_2, mixing.lambda_n
status = open("/proc/self/status").read()
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 2**20
print(json.dumps([*values, peak, time.perf_counter() - start]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_million_agents_below_two_gigabytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MILLION], capture_output=True, check=True, text=True
    )
    lambda_2, lambda_n, gigabytes, seconds = json.loads(done.stdout)
    print(f"10^6 agents: {seconds:.0f} s, {gigabytes:.2f} GB at the peak")
    assert lambda_2 == pytest.approx(1 - (1 - np.cos(2 * np.pi / 1000)) / 4, abs=1e-12)
    assert lambda_n == pytest.approx(0, abs=1e-12)
    assert gigabytes < 2
    assert load("torus:1000x1000").size == 10**6


def test_lanczos_gives_a_quadrature_exact_for_low_degrees() -> None:
    """k steps from q integrate polynomials of degree 2k - 1 against the spectrum seen from q."""
    A = lazy_metropolis("us-power-grid").weights
    q = np.random.default_rng(3).standard_normal(A.shape[0])
    q -= q.mean()
    q /= np.linalg.norm(q)
    *_, (diagonal, off) = lanczos(A, q, 5)
    nodes, vectors = np.linalg.eigh(
        np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    )
    x = q
    for degree in range(1, 10):
        x = A @ x
        assert (vectors[0] ** 2) @ nodes**degree == pytest.approx(float(q @ x), rel=1e-12)
