"""A custom family: any statistic, with the sensitivity that its author states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import FamilyError
from veilsum.families.base import Array, ExponentialFamily, Interval, Size
from veilsum.families.support import Bounds, Support, number

Lookup = Callable[..., ArrayLike]


def _given(key: str) -> Any:
    """A property: what the author gave."""
    return property(lambda self: self._options[key])


@dataclass(frozen=True, init=False, eq=False)
class Custom(ExponentialFamily):
    """A custom statistic xi(s), with the support and the sensitivity that its author states.

    Nothing checks the sensitivity, so a guarantee that rests on it is claimed, not proved.

    Parameters
    ----------
    statistic : callable
        s -> xi(s), vectorised; of shape (..., dimension) if dimension > 1.
    support : Support
        Where the signals lie; `bounds` narrow it, but not a sensitivity that is a number.
    sensitivity : float or callable
        A number L, the largest ||xi(s) - xi(s')||_1/||s - s'||_1, so that the value is L radius; or
        a function of the radius.
    dimension : int
        The length of the statistic.
    signal_shape : tuple of int
        The shape of one signal.
    name, formula : str
        For tables and messages.
    parameters : tuple of str
        The unknown parameters.
    parameter : callable, optional
        (..., dimension) means -> dict of arrays, monotone if dimension = 1; without it the one
        parameter is "mean", E xi itself.
    mean, covariance : callable, optional
        Functions of the parameters.
    sampler : callable, optional
        Of (rng, size, **parameters).
    mean_domain : (float, float)
        The values that a coordinate of E xi can take.
    l2_sensitivity : float or callable, optional
        As `sensitivity`, in the l2 norm of the statistic; the l1 norm, which is never less, without it.
    statistic_range : (low, high), optional
        The least and largest xi(s), numbers or one for each component. Masked sums and intervals
        need it, and take no other number for it; a statistic outside it is refused.
    bounds : (float or None, float or None), optional
        Public bounds on a signal.

    Raises
    ------
    FamilyError
        For a statistic that is not a function, or a sensitivity that is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from veilsum import families
    >>> capped = families.Custom(
    ...     statistic=lambda s: np.minimum(s, 10.0), support=families.Support(low=0.0), sensitivity=1.0
    ... )
    >>> moved = capped.moves(radius=2.0)
    >>> moved.l1, str(moved.status)
    (2.0, 'claimed')
    """

    if TYPE_CHECKING:
        _options: Mapping[str, Any]

    def __init__(
        self,
        statistic: Callable[[Array], ArrayLike],
        support: Support,
        sensitivity: float | Callable[[float], float],
        *,
        dimension: int = 1,
        signal_shape: tuple[int, ...] = (),
        name: str = "custom",
        formula: str = "given by the user",
        parameters: tuple[str, ...] = ("mean",),
        parameter: Callable[[Array], Mapping[str, ArrayLike]] | None = None,
        mean: Lookup | None = None,
        covariance: Lookup | None = None,
        sampler: Lookup | None = None,
        mean_domain: tuple[float, float] = (-math.inf, math.inf),
        l2_sensitivity: float | Callable[[float], float] | None = None,
        statistic_range: tuple[ArrayLike, ArrayLike] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        """Store the arguments under names that the methods of a family leave free."""
        _validate.at_least(FamilyError, 1, dimension=dimension)
        if not callable(sensitivity):
            _validate.positive(FamilyError, sensitivity=sensitivity)
        if l2_sensitivity is not None and not callable(l2_sensitivity):
            _validate.positive(FamilyError, l2_sensitivity=l2_sensitivity)
        if not callable(statistic):
            raise FamilyError(
                f"statistic must be a function of the signals; found {_validate.found(statistic)}"
            )
        if not isinstance(support, Support):
            raise FamilyError(
                f"support must be a Support; found {_validate.found(support)}; try "
                "families.Support(low=0.0, high=1.0)"
            )
        if parameter is None and parameters != ("mean",):
            raise FamilyError(f"parameters {parameters} need parameter=, a map from means to them")
        given = {
            "statistic": statistic, "support": support, "sensitivity": sensitivity, "name": str(name),
            "dimension": int(dimension), "signal_shape": tuple(signal_shape), "formula": str(formula),
            "parameters": tuple(parameters), "parameter": parameter, "mean": mean, "sampler": sampler,
            "covariance": covariance, "mean_domain": tuple(mean_domain),
            "l2_sensitivity": l2_sensitivity, "statistic_range": _ends(statistic_range, dimension),
        }  # fmt: skip
        object.__setattr__(self, "_options", given)
        object.__setattr__(self, "bounds", bounds)
        self.__post_init__()

    def __repr__(self) -> str:
        """The name and the support."""
        return f"Custom(name={self.name!r}, support={self.support.describe()!r})"

    name = _given("name")
    parameters = _given("parameters")
    formula = _given("formula")
    natural_support = _given("support")
    dimension = _given("dimension")
    signal_shape = _given("signal_shape")
    mean_domain = _given("mean_domain")

    @property
    def modulus(self) -> str:
        """As stated by the author."""
        L = self._options["sensitivity"]
        return "a function given by the user" if callable(L) else f"{number(L)} radius"

    def sample(self, rng: np.random.Generator, size: Size, **parameters: ArrayLike) -> Array:
        """sampler(rng, size, **parameters)."""
        self._check_names(parameters)
        return np.asarray(self._needed("sampler")(rng, size, **parameters), dtype=np.float64)

    def mean(self, **parameters: ArrayLike) -> Array:
        """mean(**parameters); the identity where the parameter is the mean itself."""
        self._check_names(parameters)
        if self._options["parameter"] is None:
            return self._means(parameters["mean"]).copy()
        return self._means(self._needed("mean")(**parameters))

    def covariance(self, **parameters: ArrayLike) -> Array:
        """covariance(**parameters)."""
        self._check_names(parameters)
        return self._covariances(self._needed("covariance")(**parameters))

    def parameter(self, mean: ArrayLike) -> dict[str, Array]:
        """parameter(mean clipped to mean_domain)."""
        m = np.clip(self._means(mean), *self.mean_domain)
        inverse = self._options["parameter"]
        if inverse is None:
            return {"mean": m[..., 0] if self.dimension == 1 else m}
        return {key: np.asarray(value, dtype=np.float64) for key, value in inverse(m).items()}

    def interval(
        self, mean: ArrayLike, covariance: ArrayLike, confidence: float = 0.95
    ) -> dict[str, Interval]:
        """Dimension 1, or no parameter map: the ends mapped. Otherwise the delta method,

        Var theta = J C J^T, with the Jacobian J by central differences.
        """
        m, margin = self._means(mean), self._margins(covariance, confidence)
        m = m + 0 * margin
        value = self.parameter(m)
        if self.dimension > 1 and self._options["parameter"] is not None:
            widths = self._delta(m, self._covariances(covariance), margin)
            return {k: Interval(v, v - widths[k], v + widths[k]) for k, v in value.items()}
        one, two = self.parameter(m - margin), self.parameter(m + margin)
        return {
            k: Interval(v, np.minimum(one[k], two[k]), np.maximum(one[k], two[k]))
            for k, v in value.items()
        }

    def _delta(self, m: Array, C: Array, margin: Array) -> dict[str, Array]:
        """z sqrt(J C J^T) for each parameter, z read off the margins of the mean."""
        step = 1e-6 * (1 + np.abs(m))
        ends = [step * np.eye(self.dimension)[j] for j in range(self.dimension)]
        up, down = [self.parameter(m + e) for e in ends], [self.parameter(m - e) for e in ends]
        sd = np.sqrt(np.diagonal(C, axis1=-2, axis2=-1))
        z = np.max(np.divide(margin, sd, out=np.zeros_like(margin), where=sd > 0), axis=-1)
        widths = {}
        for key in up[0]:
            rise = [up[j][key] - down[j][key] for j in range(self.dimension)]
            J = np.stack(rise, axis=-1) / (2 * step)
            variance = np.einsum("...i,...ij,...j->...", J, C, J)
            widths[key] = z * np.sqrt(np.maximum(variance, 0))
        return widths

    def _xi(self, s: Array) -> Array:
        xi = _validate.real_array(
            FamilyError, **{f"xi(s) of {self.name}": self._options["statistic"](s)}
        )
        outer = s.shape[: s.ndim - len(self.signal_shape)]
        expected = outer if self.dimension == 1 else (*outer, self.dimension)
        if xi.shape != expected:
            raise FamilyError(
                f"the statistic of {self.name} must map shape {s.shape} to {expected}; "
                f"found {xi.shape}"
            )
        return xi

    def _moves(self, radius: float) -> Statistic:
        """As stated: not checked."""
        l1 = self._modulus("sensitivity", radius)
        stated = self._options["l2_sensitivity"] is not None
        l2 = self._modulus("l2_sensitivity", radius) if stated else None
        low, high = self._options["statistic_range"]
        why = f"stated by the author of {self.name}, and not checked"
        return Statistic(l1, l2, self.dimension, low, high, reason=why)

    def _modulus(self, key: str, radius: float) -> float:
        """What the author states for a radius."""
        L = self._options[key]
        width = math.prod(self.signal_shape) * (self.support.high - self.support.low)
        radius = min(radius, width)  # no two signals are further apart
        try:
            given = L(radius) if callable(L) else L * radius
        except OverflowError:  # such as that of floor(inf)
            given = math.inf
        value = _validate.as_float(given)
        if not value > 0:
            raise FamilyError(
                f"the {key} of {self.name} must be a number above 0; found "
                f"{_validate.found(given)} for a radius of {number(radius)}; 0 would mean no noise"
            )
        return value

    def _needed(self, key: str) -> Lookup:
        thing: Lookup | None = self._options[key]
        if thing is None:
            raise FamilyError(f"{self.name} has no {key}: pass Custom(..., {key}=function)")
        return thing


def _ends(stated: Any, dimension: int) -> tuple[Array, Array]:
    """The stated ends by component; infinite without any."""
    if stated is None:
        stated = (-math.inf, math.inf)
    if not isinstance(stated, tuple | list) or len(stated) != 2:
        raise FamilyError(
            f"statistic_range must be a pair (low, high); found {_validate.found(stated)}"
        )
    ends = []
    for end in stated:
        values = _validate.real_array(FamilyError, statistic_range=end)
        if values.shape not in ((), (dimension,)):
            raise FamilyError(
                "each end of statistic_range must be a number, or one for each component "
                f"({dimension}); found shape {values.shape}"
            )
        ends.append(np.broadcast_to(values, (dimension,)))
    if not (ends[0] < ends[1]).all():
        raise FamilyError("statistic_range needs low < high in each component")
    return ends[0], ends[1]
