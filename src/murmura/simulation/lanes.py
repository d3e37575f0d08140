"""A few numbers that advance together, as one value of the compiled kernels.

`Lanes` of width W is a vector of W doubles in registers: W runs of a sweep at one agent. Keeping a
row's sums there is not left to the compiler's judgement, and the arithmetic of a lane is the same
whatever the width, so that a run's numbers do not depend on the company it is computed in.

Functions learn the width from `like`, a tuple of W zeros: its length is part of its type, so each
width is compiled on its own, and only when it is needed.
"""

# What is compiled is typed by the compiler, from the arrays it is given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,type-var,var-annotated"
# mypy: disable-error-code="assignment"

from __future__ import annotations

import operator

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

_DOUBLE = ir.DoubleType()
HALF = 4  # lanes that come out of one half of the random words


class Lanes(types.Type):
    """The type of W doubles."""

    def __init__(self, width: int) -> None:
        """The width is part of the name, by which numba tells types apart."""
        self.width = width
        super().__init__(name=f"Lanes({width})")


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, kind.width))


def _splat(builder, number, width):
    kind = ir.VectorType(_DOUBLE, width)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), mask)


def _pointer(context, builder, kind, array, row, column, width):
    """Where row and column of a contiguous matrix start, as a pointer to W doubles."""
    made = context.make_array(kind)(context, builder, array)
    columns = cgutils.unpack_tuple(builder, made.shape, 2)[1]
    place = builder.add(builder.mul(row, columns), column)
    return builder.bitcast(
        builder.gep(made.data, [place]), ir.VectorType(_DOUBLE, width).as_pointer()
    )


@intrinsic
def load(typing, like, array, row, column):  # noqa: ARG001
    """array[row, column : column + W] of a contiguous matrix."""

    def emit(context, builder, sig, args):
        width = sig.return_type.width
        place = _pointer(context, builder, sig.args[1], args[1], args[2], args[3], width)
        return builder.load(place, align=8)

    return Lanes(len(like))(like, array, types.uint64, types.uint64), emit


@intrinsic
def load_halves(typing, like, array, column):  # noqa: ARG001
    """array[0, column : column + W] for W <= 4; for W = 8, four from either row."""

    def emit(context, builder, sig, args):
        width = sig.return_type.width
        part = min(width, HALF)
        halves = [
            builder.load(
                _pointer(
                    context, builder, sig.args[1], args[1], ir.IntType(64)(row), args[2], part
                ),
                align=8,
            )
            for row in (0, 1)
        ]
        order = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(width)))
        return halves[0] if width <= HALF else builder.shuffle_vector(*halves, order)

    return Lanes(len(like))(like, array, types.uint64), emit


@intrinsic
def store(typing, array, row, column, value):  # noqa: ARG001
    """array[row, column : column + W] = value."""

    def emit(context, builder, sig, args):
        width = sig.args[3].width
        place = _pointer(context, builder, sig.args[0], args[0], args[1], args[2], width)
        builder.store(args[3], place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.uint64, value), emit


@intrinsic
def splat(typing, like, number):  # noqa: ARG001
    """The same number in every lane."""

    def emit(context, builder, sig, args):  # noqa: ARG001
        return _splat(builder, args[1], sig.return_type.width)

    return Lanes(len(like))(like, types.float64), emit


@intrinsic
def maximum(typing, a, b):  # noqa: ARG001
    """The larger of two, lane by lane."""

    def emit(context, builder, sig, args):  # noqa: ARG001
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return a(a, b), emit


def _arithmetic(sign, emit):
    """Give lanes an operator, on either side a plain number too."""

    @infer_global(sign)
    class _Rule(AbstractTemplate):
        def generic(self, args, kws):  # noqa: ARG002
            lanes = [a for a in args if isinstance(a, Lanes)]
            if len(args) == 2 and lanes:
                kinds = (a if isinstance(a, Lanes) else types.float64 for a in args)
                return signature(lanes[0], *kinds)
            return None

    def both(context, builder, sig, args):  # noqa: ARG001
        width = sig.return_type.width
        wide = [
            a if isinstance(kind, Lanes) else _splat(builder, a, width)
            for a, kind in zip(args, sig.args, strict=True)
        ]
        return getattr(builder, emit)(*wide)

    for kinds in ((Lanes, Lanes), (types.Float, Lanes), (Lanes, types.Float)):
        lower_builtin(sign, *kinds)(both)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
