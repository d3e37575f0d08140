"""The paper's laws as sums, which is how agents run them.

With S = nu for the offline laws and S = t nu for the online ones, a law of the paper is

    S_t = (1 - p_t) S_{t-1} + p_t A S_{t-1} + x_t,        x_t = xi_t + d_t released in round t,

and the number of readings in it obeys the same with x_t = 1: w = 1 for average, w = t for learn.
So agents push shares of (S, w) to one another and read off S/w; p_t = 1 for average and learn,
p_t = 1/(t-1) for learn-network. What is pushed is subtracted: the totals of S and of w are those
of all that was released, whatever is lost or late on the way.
"""

from __future__ import annotations

from murmura.errors import LawError
from murmura.laws.base import Law

SUITED = ("average", "learn", "learn-network", "learn-dynamic", "push-sum", "push-sum-learn")


def passed(law: Law, t: int) -> float:
    """p_t: how much of S goes through the weights in round t = 1, 2, ...; nothing while S is 0."""
    if not law.online:
        return law.coefficients(t).mix
    if law.ratio:  # S itself, not an average
        return law.coefficients(t).mix
    return 0.0 if t == 1 else law.coefficients(t).mix * t / (t - 1)


def check(law: Law, rounds: int = 100) -> None:
    """Raise unless the law keeps the totals, which is what agents rely on."""
    if all(_conserves(law, t) for t in range(1, rounds + 1)) and _starts_whole(law):
        return
    raise LawError(
        f"law {law.name} is not a sum that agents can keep: what one gives must be what the "
        f"others get; agents run {', '.join(SUITED)}, and `murmura run` simulates the others"
    )


def _starts_whole(law: Law) -> bool:
    whole = (0.0, 0.0) if law.online else (1.0, 1.0)
    return (law.start.learn, law.start.noise) == whole


def _conserves(law: Law, t: int) -> bool:
    keep, mix, recall, learn, noise, edge = law.coefficients(t)
    if recall or edge:
        return False
    if not law.online:
        return _near(keep + mix, 1) and learn == noise == 0
    unit = 1.0 if law.ratio else 1 / t
    before = 1.0 if law.ratio else (t - 1) / t
    return _near(learn, unit) and _near(noise, unit) and (t == 1 or _near(keep + mix, before))


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 1e-12
