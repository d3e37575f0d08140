"""Theory: exact expected errors, the paper's bounds and sharper ones, limits, and plans.

    from veilsum import theory
    theory.expected(problem).total           # without sampling, every round and epsilon
    theory.table_1(problem)                  # the paper's bounds beside it
    theory.headroom(result)                  # errors beside what no algorithm can beat
    theory.plan(problem, error=0.05)         # the smallest budget that reaches an error
    theory.precision(problem)                # the interval of an estimate against public bounds

Names are imported when first used, so that `import veilsum` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.theory.accuracy import Precision, precision
    from veilsum.theory.bounds import (
        Bound,
        SharperBound,
        Table1Row,
        corollary_1,
        dynamic_rounds,
        heterogeneous_offline,
        heterogeneous_online,
        rounds_to_accuracy,
        sharper,
        sharper_theorem_1,
        sharper_theorem_2,
        table_1,
        theorem_1,
        theorem_2,
        theorem_3,
    )
    from veilsum.theory.exact import Expected, expected
    from veilsum.theory.limits import Headroom, best_polynomial, central, diameter, headroom
    from veilsum.theory.planning import Candidate, LeftOut, Proposal, plan

# No name here may also be a submodule's: importing the submodule would replace the function.
_HOMES = {
    "Bound": "bounds",
    "Candidate": "planning",
    "Expected": "exact",
    "Headroom": "limits",
    "LeftOut": "planning",
    "Proposal": "planning",
    "Table1Row": "bounds",
    "best_polynomial": "limits",
    "central": "limits",
    "corollary_1": "bounds",
    "diameter": "limits",
    "dynamic_rounds": "bounds",
    "expected": "exact",
    "headroom": "limits",
    "heterogeneous_offline": "bounds",
    "heterogeneous_online": "bounds",
    "plan": "planning",
    "Precision": "accuracy",
    "precision": "accuracy",
    "rounds_to_accuracy": "bounds",
    "SharperBound": "bounds",
    "sharper": "bounds",
    "sharper_theorem_1": "bounds",
    "sharper_theorem_2": "bounds",
    "table_1": "bounds",
    "theorem_1": "bounds",
    "theorem_2": "bounds",
    "theorem_3": "bounds",
}

__all__ = [
    "Bound",
    "Candidate",
    "Expected",
    "Headroom",
    "LeftOut",
    "Precision",
    "Proposal",
    "SharperBound",
    "Table1Row",
    "best_polynomial",
    "central",
    "corollary_1",
    "diameter",
    "dynamic_rounds",
    "expected",
    "headroom",
    "heterogeneous_offline",
    "heterogeneous_online",
    "plan",
    "precision",
    "rounds_to_accuracy",
    "sharper",
    "sharper_theorem_1",
    "sharper_theorem_2",
    "table_1",
    "theorem_1",
    "theorem_2",
    "theorem_3",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
