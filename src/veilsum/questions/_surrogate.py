"""Logistic likelihoods of normal x with known moments: where to step, and how errors shrink.

    G(b) = E[sigma(b'x) x],   H(b) = dG/db = E[sigma'(b'x) x x'],   x ~ N(m, C),   eta = b'x ~ N(b'm, b'C b)

With eta = b'm + sqrt v t, v = b'C b, z = C b/sqrt v, t ~ N(0, 1), x given t is N(m + z t, C - z z'), so both
need expectations in one dimension only (Gauss-Hermite):

    G = m E s + z E s t
    H = E s' (C - z z' + m m') + E s' t (m z' + z m') + E s' t^2 z z'

Everything is in batches (..., D): one answer, or many simulated ones. x_0 is constant and not in C.
Noise is taken off C twice. Its eigenvalues have a floor; and it is pulled towards its mean eigenvalue by the
part of its squared distance from there that noise explains. Nothing of this touches a guarantee, and the
gradient that is released last is that of the records: a wrong surrogate makes a step less good, not biased.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilsum.questions._gradients import sigmoid
from veilsum.questions.columns import Floats

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(12)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
ROUNDS = 15  # of Newton's method, at most
UNKNOWN = 0.2  # of a step: how far off it may be where x is not normal
LEAST = 1e-6  # of curvature, over the norm of x squared
LONGEST = 1.0  # of its steps, over the norm of x
FURTHEST = 12.0  # of coefficients, over the norm of x


@dataclass(frozen=True, eq=False)
class NormalSurrogate:
    """Records as draws of x ~ N(m, C), for a batch.

    Parameters
    ----------
    mean : array
        (..., D): m, the constant first.
    covariance : array
        (..., D, D): C.
    norm : float
        Of x, at most.
    """

    mean: Floats
    covariance: Floats
    norm: float

    @classmethod
    def of(cls, moments: Floats, constant: float, noise: Floats, norm: float) -> NormalSurrogate:
        """Of noised E x x' (..., D, D), whose entries have the deviations `noise` (D, D)."""
        mean = moments[..., 0, :] / constant
        mean[..., 0] = constant
        c = moments - mean[..., :, None] * mean[..., None, :]
        c[..., 0, :] = c[..., :, 0] = 0
        inner = _without_noise(c[..., 1:, 1:], noise[1:, 1:], norm)
        c[..., 1:, 1:] = inner
        return cls(mean, c, norm)

    def at(self, b: Floats) -> tuple[Floats, Floats]:
        """G and H."""
        m, c = self.mean, self.covariance
        cb = (c @ b[..., None])[..., 0]
        root = np.sqrt(np.maximum((b * cb).sum(-1), 0.0))[..., None]
        z = cb / np.where(root > 0, root, 1.0)
        p = sigmoid((b * m).sum(-1)[..., None] + root * NODES)
        slope = p * (1 - p)
        gradient = m * (p @ WEIGHTS)[..., None] + z * (p @ (WEIGHTS * NODES))[..., None]
        a0, a1, a2 = ((slope @ (WEIGHTS * NODES**k))[..., None, None] for k in (0, 1, 2))
        mm, zz, mz = (x[..., :, None] * y[..., None, :] for x, y in ((m, m), (z, z), (m, z)))
        hessian = a0 * (c - zz + mm) + a1 * (mz + np.swapaxes(mz, -1, -2)) + a2 * zz
        return gradient, hessian + LEAST * self.norm**2 * np.eye(b.shape[-1])

    def solved(self, target: Floats, start: Floats) -> Floats:
        """b with G(b) = target, by Newton's method with short steps; at most `FURTHEST` away."""
        b = start
        for _ in range(ROUNDS):
            gradient, hessian = self.at(b)
            step = -np.linalg.solve(hessian, (gradient - target)[..., None])[..., 0]
            b = _shortened(
                b + _shortened(np.asarray(step), LONGEST / self.norm), FURTHEST / self.norm
            )
            if np.abs(step).max() * self.norm < 1e-4:
                break
        return b

    def far(self, b: Floats) -> Floats:
        """Whether b is as far away as it may be."""
        return np.asarray(np.linalg.norm(b, axis=-1) * self.norm > 0.99 * FURTHEST)


def _without_noise(c: Floats, noise: Floats, norm: float) -> Floats:
    """A covariance pulled to a multiple of the identity by the noise in it, and above a floor."""
    size = c.shape[-1]
    same = (np.trace(c, axis1=-2, axis2=-1) / size)[..., None, None] * np.eye(size)
    apart = ((c - same) ** 2).sum((-2, -1))[..., None, None]
    pulled = np.minimum(1.0, (noise**2).sum() / np.maximum(apart, 1e-300)) if size > 1 else 0.0
    values, vectors = np.linalg.eigh(c + pulled * (same - c))
    floor = norm**2 * np.clip(2 * noise.max() / norm**2, 1e-3, 0.05)
    return np.asarray(
        (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    )


def _shortened(x: Floats, most: float) -> Floats:
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x * np.minimum(1.0, most / np.maximum(length, 1e-300)))


@dataclass(frozen=True, eq=False)
class Guess:
    """Coefficients and how uncertain they are, for a batch: b +- sqrt P.

    Parameters
    ----------
    b : array
        (..., D).
    covariance : array, optional
        (..., D, D): P; None where nothing is known.
    """

    b: Floats
    covariance: Floats | None = None

    @classmethod
    def nothing(cls, b: Floats) -> Guess:
        """A place to begin."""
        return cls(b)

    def after(
        self,
        gradient: Floats,
        sd: Floats,
        surrogate: NormalSurrogate,
        rng: np.random.Generator | None = None,
        least: float = 0.0,
    ) -> Guess:
        """The guess that a noised gradient at b leads to, a fraction `UNKNOWN` of the step not being known.

        Parameters
        ----------
        gradient
            A record's share of it.
        sd
            Of its noise.
        surrogate
            Of the records.
        rng
            To draw what is not known; without it that counts as 0.
        least
            Of the length of the step by which the unknown is drawn.
        """
        size = self.b.shape[-1]
        there = surrogate.solved(surrogate.at(self.b)[0] - gradient, self.b)
        step = there - self.b
        inverse = np.linalg.inv(surrogate.at(there)[1])
        own = np.asarray(sd)[..., None, None] ** 2 * inverse @ inverse
        off = UNKNOWN * np.linalg.norm(step, axis=-1)[..., None] / np.sqrt(size)
        if rng is not None:
            drawn = np.maximum(off, UNKNOWN * least / np.sqrt(size))
            step = step + drawn * rng.standard_normal(step.shape)
        own = own + off[..., None] ** 2 * np.eye(size)
        if self.covariance is None:
            return Guess(self.b + step, own)
        gain = self.covariance @ np.linalg.pinv(self.covariance + own, hermitian=True)
        return Guess(self.b + (gain @ step[..., None])[..., 0], gain @ own)
