"""Mixing and DirectedMixing: the matrix A by which the agents average, valid once constructed.

Symmetric weights (Mixing) satisfy

    A >= 0,  A = A',  A 1 = 1,  connected,  aperiodic   =>   A^t -> 11'/n  at rate beta*^t

with beta* = max(lambda_2, |lambda_n|), the second largest modulus of an eigenvalue. In a directed
network a link (source, target) means that the source sends to the target, a_{target,source} > 0.
Row-stochastic averaging converges to pi'x, with pi' A = pi' (not the mean: App. C). A
column-stochastic A keeps the sum 1'x, and the ratio of two such averages (push-sum) is the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._types import Floats, Kind, Labels
from veilsum._validate import as_float, found, one_of
from veilsum.errors import NetworkError
from veilsum.networks import kernels, validation
from veilsum.networks.graph import Graph, checked_labels
from veilsum.networks.rows import CompressedRows, compressed, coordinates
from veilsum.networks.spectrum import extreme_eigenvalues

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CUSTOM = "custom"  # the scheme of weights that came as a matrix
REMEDY = "networks.row_stochastic(graph), whose self weights are positive"
SOLVE_UP_TO = 2_000
POWER_STEPS = 20_000
ACCURACY = 1e-12
ROUNDING = 1e-15


class Fixed:
    """A_t = A: the part of `Network` that Mixing and DirectedMixing share."""

    rows: CompressedRows
    labels: Labels
    graph: Graph | None
    kind: Kind

    def _settle(self, sound: bool = False) -> None:
        """Put the weights in canonical form and check the labels, the entries and the sums.

        `sound` says that the form, the entries and the sums are known to be right.
        """
        given = compressed(self.rows)
        right = given is not None and (sound or validation.is_canonical(given))
        kept = given if given is not None and right else validation.canonical(self.rows)
        labels = checked_labels(self.labels, kept.shape[0])
        if not sound:
            validation.check_entries(kept, labels)
            validation.check_sums(kept, labels, self.kind)
        if self.graph is not None and self.graph.size != kept.shape[0]:
            raise NetworkError(f"graph has {self.graph.size} agents, weights {kept.shape[0]}")
        object.__setattr__(self, "rows", kept)
        object.__setattr__(self, "labels", labels)

    def _described(self, word: str) -> str:
        """Class, word, graph and size, never the weights."""
        name = "" if self.graph is None else f" on {self.graph.name!r}"
        return f"{type(self).__name__}({word!r}{name}, {self.size} agents)"

    @property
    def size(self) -> int:
        """The number n of agents."""
        return int(self.rows.shape[0])

    @property
    def weights(self) -> csr_array:
        """A, as an array of scipy that shares the memory of `rows`; needs `veilsum[sim]`."""
        return self.rows.csr

    @property
    def dynamic(self) -> bool:
        """The weights are the same in every round."""
        return False

    @cached_property
    def largest_neighbour_weight(self) -> Floats:
        """(n,): max over j != i of a_ij."""
        return kernels.largest_off_diagonal(self.rows)

    @property
    def diameter(self) -> int:
        """The most hops between two agents, or an upper bound where many searches are needed."""
        return self._diameter[1]

    @property
    def least_diameter(self) -> int:
        """The same, or a lower bound."""
        return self._diameter[0]

    @cached_property
    def _diameter(self) -> tuple[int, int]:
        from veilsum.networks.hops import diameter  # loads the compiler

        return diameter(self.rows)

    def at(self, t: int) -> csr_array:
        """A_t = A for every t."""
        del t
        return self.weights

    def row(self, agent: int) -> tuple[NDArray[np.int32], Floats]:
        """The indices and weights of the agents that one agent averages over, itself included.

        Parameters
        ----------
        agent : int
            An index, 0 .. n-1.
        """
        if not 0 <= agent < self.size:
            raise NetworkError(f"agent must be an index in 0..{self.size - 1}; found {agent}")
        start, stop = self.rows.indptr[agent : agent + 2]
        return self.rows.indices[start:stop], self.rows.data[start:stop]


@dataclass(frozen=True, eq=False)
class Mixing(Fixed):
    """Symmetric doubly stochastic weights of a connected, aperiodic network.

    Use `Mixing.of(matrix)` for custom weights, or a scheme such as `networks.metropolis(graph)`.

    Parameters
    ----------
    rows : CompressedRows, csr_array or array_like
        A; kept without a copy if it has int32 sorted indices and the diagonal of every row.
    labels : sequence of hashable, optional
        The agents' names; 0 .. n-1 if left out.
    scheme : str
        How the weights were chosen.
    graph : Graph, optional
        The graph of the weights.

    Raises
    ------
    NetworkError
        Unless A is nonnegative, symmetric, doubly stochastic, connected and aperiodic.

    Examples
    --------
    >>> from veilsum import networks
    >>> mixing = networks.metropolis("us-power-grid")
    >>> mixing, round(mixing.beta_star, 6)
    (Mixing('metropolis' on 'us-power-grid', 4941 agents), 0.999857)
    """

    rows: CompressedRows
    labels: Labels = ()
    scheme: str = CUSTOM
    graph: Graph | None = None

    def __post_init__(self) -> None:
        """Check everything that the class guarantees."""
        sound = kernels.is_sound(self.rows, validation.TOLERANCE)
        self._settle(sound)
        if not sound:
            validation.check_symmetric(self.rows, self.labels)
        validation.check_connected(self.rows, self.labels)
        validation.check_aperiodic(self.rows, "networks.lazy_metropolis(graph)")

    @classmethod
    def of(cls, matrix: Any, labels: Labels | None = None, scheme: str = CUSTOM) -> Mixing:
        """The Mixing of a dense or sparse matrix; its graph is where the weights are positive.

        Parameters
        ----------
        matrix : array_like or sparse matrix, shape (n, n)
            The weights.
        labels : sequence of hashable, optional
            The agents' names.
        scheme : str
            How the weights were chosen.

        Returns
        -------
        Mixing

        Examples
        --------
        >>> from veilsum import networks
        >>> networks.Mixing.of([[0.5, 0.5], [0.5, 0.5]]).beta_star
        0.0
        """
        weights = validation.canonical(matrix)
        bare = cls(weights, labels if labels is not None else (), scheme)
        i, j, _ = coordinates(validation.links_of(weights))
        pairs = np.stack([i, j], axis=1).astype(np.int64)
        graph = Graph(bare.size, pairs[pairs[:, 0] < pairs[:, 1]], bare.labels, name=scheme)
        object.__setattr__(bare, "graph", graph)
        return bare

    def __repr__(self) -> str:
        """Scheme and size, never the weights."""
        return self._described(self.scheme)

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Rows and columns sum to 1."""
        return "doubly-stochastic"

    @cached_property
    def stationary(self) -> Floats:
        """pi = 1/n."""
        return np.full(self.size, 1.0 / self.size)

    @cached_property
    def _extreme_eigenvalues(self) -> tuple[float, float]:
        return extreme_eigenvalues(self.rows)

    @property
    def lambda_2(self) -> float:
        """The largest eigenvalue below 1."""
        return self._extreme_eigenvalues[0]

    @property
    def lambda_n(self) -> float:
        """The smallest eigenvalue."""
        return self._extreme_eigenvalues[1]

    @property
    def beta_star(self) -> float:
        """beta* = max(lambda_2, |lambda_n|)."""
        return max(self.lambda_2, abs(self.lambda_n))

    @property
    def spectral_gap(self) -> float:
        """1 - beta*."""
        return 1.0 - self.beta_star

    def rounds_to(self, accuracy: float) -> int:
        """ceil(log(1/accuracy) / log(1/beta*)): rounds until beta*^t <= accuracy.

        Parameters
        ----------
        accuracy : float
            In (0, 1).
        """
        if not 0 < as_float(accuracy) < 1:
            raise NetworkError(f"accuracy must lie in (0, 1); found {found(accuracy)}")
        if self.beta_star < 1e-14:  # rounding of 0: one round of exact averaging
            return 1
        return math.ceil(math.log(1 / accuracy) / math.log(1 / self.beta_star))


@dataclass(frozen=True, eq=False)
class DirectedMixing(Fixed):
    """Row- or column-stochastic weights of a strongly connected, aperiodic network.

    Parameters
    ----------
    rows : CompressedRows, csr_array or array_like
        A; a_ij > 0 is a link from j to i.
    kind : {"row-stochastic", "column-stochastic"}
        Which sums are 1.
    labels : sequence of hashable, optional
        The agents' names; 0 .. n-1 if left out.
    scheme : str
        How the weights were chosen.
    graph : Graph, optional
        The graph of the weights.

    Raises
    ------
    NetworkError
        Unless the weights are as the kind says, strongly connected and aperiodic.

    Examples
    --------
    >>> import networkx
    >>> from veilsum import networks
    >>> arcs = networkx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")])
    >>> networks.row_stochastic(arcs).stationary.round(3)
    array([0.444, 0.222, 0.333])
    """

    rows: CompressedRows
    kind: Kind
    labels: Labels = ()
    scheme: str = CUSTOM
    graph: Graph | None = None

    def __post_init__(self) -> None:
        """Check everything that the class guarantees."""
        one_of(NetworkError, ("row-stochastic", "column-stochastic"), kind=self.kind)
        self._settle()
        validation.check_connected(self.rows, self.labels, directed=True)
        validation.check_aperiodic(self.rows, REMEDY)

    @classmethod
    def of(
        cls, matrix: Any, kind: Kind = "row-stochastic", labels: Labels | None = None
    ) -> DirectedMixing:
        """The DirectedMixing of a dense or sparse matrix; a_ij > 0 is a link from j to i.

        Parameters
        ----------
        matrix : array_like or sparse matrix, shape (n, n)
            The weights.
        kind : {"row-stochastic", "column-stochastic"}
            Which sums are 1.
        labels : sequence of hashable, optional
            The agents' names.

        Returns
        -------
        DirectedMixing
        """
        weights = validation.canonical(matrix)
        bare = cls(weights, kind, labels if labels is not None else ())
        i, j, _ = coordinates(validation.links_of(weights))
        arcs = np.stack([j, i], axis=1).astype(np.int64)
        graph = Graph(bare.size, arcs, bare.labels, directed=True, name=CUSTOM)
        object.__setattr__(bare, "graph", graph)
        return bare

    def __repr__(self) -> str:
        """Kind and size, never the weights."""
        return self._described(self.kind)

    @cached_property
    def stationary(self) -> Floats:
        """The Perron vector, of sum 1: pi' A = pi' (row-stochastic), A pi = pi (column-stochastic).

        Row-stochastic: the weight of each signal in the limit. Column-stochastic: the fraction of the
        total mass that each agent has in the limit (what push-sum divides by).
        """
        row = self.kind == "row-stochastic"
        return perron(self.weights.T.tocsr() if row else self.weights)


def perron(columns: csr_array) -> Floats:
    """x > 0 of sum 1 with C x = x, for a column-stochastic C: by power, or by elimination.

    Elimination solves the equations of agents 1 .. n-1 with x_0 = 1; it is exact and quick for
    small or slow networks, while the power method suits the large ones that mix fast.
    """
    x = None if columns.shape[0] <= SOLVE_UP_TO else _power(columns)
    x = _eliminate(columns) if x is None else x
    residual = float(np.abs(columns @ x - x).sum())
    if not residual < 1e-10 or np.any(x <= 0):
        raise NetworkError(f"the stationary vector did not converge: residual {residual:.1e}")
    return x


def _power(columns: csr_array) -> Floats | None:
    """C^t x until the remaining error, change * rate/(1 - rate), is small; None if it is slow."""
    x: Floats = np.full(columns.shape[0], 1.0 / columns.shape[0])
    changes: list[float] = []
    for t in range(1, POWER_STEPS + 1):
        new: Floats = columns @ x
        new /= new.sum()
        changes.append(float(np.abs(new - x).sum()))
        x = new
        if changes[-1] < ROUNDING:  # no rate to read here: the steps it took to arrive tell
            return x if t < 5_000 else None
        rate = (changes[-1] / changes[max(0, t - 11)]) ** (1 / 10)
        if t > 10 and rate < 1 and changes[-1] * rate / (1 - rate) < ACCURACY:
            return x
    return None


def _eliminate(columns: csr_array) -> Floats:
    sparse, linalg = _extras.load("scipy.sparse"), _extras.load("scipy.sparse.linalg")
    system = (sparse.eye_array(columns.shape[0]) - columns).tocsc()
    factor = linalg.splu(system[1:, 1:], permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
    rest = factor.solve(-system[1:, [0]].toarray().ravel())
    x = np.concatenate([[1.0], rest])
    return np.asarray(x / x.sum())
