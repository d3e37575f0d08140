"""Least squares from noised moments: every coefficient's interval, from the exact law of the noise.

M = sum z z' over z = (x, y), x_0 = 1; A its part of x, c its column of y. Released: M + E, E symmetric with
independent entries. These records' coefficients g solve A g = c, whatever the noise is.

Interval of g_j. With w_j = 1 and w_-j = -A_--^-1 A_-j (so w'A has no other coefficient), and g_-(b) the other
coefficients that fit at g_j = b,

    T(b) = w'(c - A g(b)) = c~ - b a~,       its noise  w'E t(b),  t(b) = (-g(b), 1),  linear in b,

and the b with |T(b)| <= q sd(T(b)) are an interval, {b: (c~ - b a~)^2 <= q^2 (v_0 + v_1 b + v_2 b^2)}
(Fieller's). It is a bounded one where a~ is q of its own deviations above 0; elsewhere nothing can be said.
The first order of T is exact at the true b, so the noise of A, which inverts badly, costs no coverage; q is
the quantile of the weighted noise. For a population, s^2 a~ is added to the variance: the model's
errors, of variance s^2, on fixed x.

The estimate is that of the ridge max(0, 2 sd - least eigenvalue of A), moved into the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veilsum.questions.base import NoisedVector
from veilsum.questions.columns import Floats

EQUAL = 1, 2, 3, 4, 6, 10, 30, 1000  # numbers of equal weights whose quantiles are looked up


@dataclass(frozen=True, eq=False)
class NoisedFit:
    """Least squares of noised moments.

    Parameters
    ----------
    moments : array
        (p, p), y last.
    released : NoisedVector
        For the law of the noise.
    unit : float
        Of the moments, in the released units.
    places : pair of array
        Which entries have noise: i <= j.
    """

    moments: Floats
    released: NoisedVector
    unit: float
    places: tuple[NDArray[np.intp], NDArray[np.intp]]

    @property
    def sd(self) -> float:
        """Of the noise of an entry."""
        return self.released.sd / self.unit

    @cached_property
    def size(self) -> int:
        """Coefficients, the intercept among them."""
        return len(self.moments) - 1

    @cached_property
    def least(self) -> float:
        """The least eigenvalue of A."""
        return float(np.linalg.eigvalsh(self.moments[:-1, :-1])[0])

    @cached_property
    def coefficients(self) -> Floats:
        """(A + ridge)^-1 c."""
        ridge = max(0.0, 2 * self.sd - self.least) * np.eye(self.size)
        return np.asarray(np.linalg.solve(self.moments[:-1, :-1] + ridge, self.moments[:-1, -1]))

    def weights(self, left: Floats, right: Floats) -> Floats:
        """Of the independent entries of E in left'E right."""
        i, j = self.places
        return np.asarray(left[i] * right[j] + np.where(i == j, 0.0, left[j] * right[i]))

    def half(self, weights: Floats, sampling: float = 0.0) -> float:
        """How far weighted noise and sampling reach with 95%.

        Deviations times a quantile, exact for e equal weights and nearly so for e = (sum w^2)^2/sum w^4,
        by which the fourth cumulant is that of e equal ones.
        """
        square = float(weights @ weights) + sampling / self.sd**2
        equal = square**2 / float((weights**4).sum())
        known = [self.released.half(np.ones(e)) / math.sqrt(e) for e in EQUAL]
        q = float(np.interp(-1 / equal, [-1 / e for e in EQUAL], known))
        return q * math.sqrt(square) / self.unit

    @cached_property
    def residual(self) -> tuple[float, float]:
        """The sum of squared residuals, and how far its noise reaches.

        What fitting to noise takes off, tr(A^-1 Cov(E t)) in expectation, is added again.
        """
        t = np.append(-self.coefficients, 1.0)
        total = float(t @ self.moments @ t)
        moved = np.stack([self.weights(row, t) for row in np.eye(self.size, self.size + 1)])
        total += self.sd**2 * float(
            np.trace(np.linalg.solve(self.moments[:-1, :-1], moved @ moved.T))
        )
        return total, self.half(self.weights(t, t))

    @cached_property
    def error(self) -> float:
        """s^2, the variance of the model's errors."""
        n = float(self.moments[0, 0])
        return max(self.residual[0], 0.0) / max(n - self.size, 1.0)

    def coefficient(
        self, j: int, basis: Floats, population: bool = False
    ) -> tuple[float, float, float]:
        """The j-th coefficient of basis x, and its interval; NaN where there is none."""
        nothing = math.nan, math.nan, math.nan
        if self.least <= 0:
            return nothing
        a, c = basis @ self.moments[:-1, :-1] @ basis.T, basis @ self.moments[:-1, -1]
        rest = [k for k in range(self.size) if k != j]
        inner = np.linalg.solve(a[np.ix_(rest, rest)], np.stack([c[rest], a[rest, j]], axis=1))
        w, constant, linear = (np.zeros(self.size) for _ in range(3))
        w[j], w[rest] = 1.0, -inner[:, 1]
        constant[rest], linear[j], linear[rest] = inner[:, 0], 1.0, -inner[:, 1]
        top, bottom = float(w @ c), float(w @ a[:, j])
        left = np.append(basis.T @ w, 0.0)
        at_zero = self.weights(left, np.append(-basis.T @ constant, 1.0))
        slope = self.weights(left, np.append(-basis.T @ linear, 0.0))
        sampling = self.error * bottom if population else 0.0
        best = at_zero + top / bottom * slope
        sd = self.sd * float(np.linalg.norm(best))
        q = self.half(best, sampling) / math.sqrt(sd**2 + sampling)
        v = self.sd**2 * np.array([slope @ slope, 2 * at_zero @ slope, at_zero @ at_zero])
        v[2] += sampling
        square, half, rest_of = np.array([bottom**2, -2 * top * bottom, top**2]) - q * q * v
        if square <= 0:
            return nothing
        root = math.sqrt(max(half**2 - 4 * square * rest_of, 0.0))
        low, high = (-half - root) / (2 * square), (-half + root) / (2 * square)
        ridged = float(np.linalg.solve(basis.T, self.coefficients)[j])
        return min(max(ridged, low), high), low, high
