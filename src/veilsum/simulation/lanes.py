"""A few numbers that advance together, as one value of the compiled kernels.

`Lanes` of width W is a vector of W doubles in registers: W runs of a sweep at one agent. Keeping a
row's sums there is not left to the compiler's judgement, and the arithmetic of a lane is the same
whatever the width, so that a run's numbers do not depend on the company it is computed in.

This is written for LLVM, through numba's documented surface alone: `numba.extending`, the context that
an intrinsic is given, and llvmlite's IR. Plain loops do not do: whether they become vector
instructions changes with every release of the compiler, and nothing in Python says that eight rows
are to be loaded one by one into one register, or that a sum keeps its order. The surface may change with
a minor version of numba: pyproject.toml bounds it, and tests/simulation/test_lanes.py says which
function broke.

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
from numba.extending import intrinsic, models, overload, register_model

_DOUBLE = ir.DoubleType()
HALF = 4  # lanes that come out of one half of the random words
SLICE = 8  # rows that `take` takes together


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


def _pointer(context, builder, kind, array, row, column, width, columns=None):
    """Where row and column of a contiguous matrix start, as a pointer to W doubles."""
    made = context.make_array(kind)(context, builder, array)
    if columns is None:
        columns = builder.extract_value(made.shape, 1)
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
def take(typing, like, wide, array, indices, first, column):  # noqa: ARG001
    """array[j, column : column + W] for the eight j = indices[first : first + 8], in one value.

    Eight loads and inserts: the processor's own gather is slower where all of them hit the cache.
    `wide` holds as many zeros as the array has columns, or none if that is known to the array alone.
    """

    def emit(context, builder, sig, args):
        width, long = len(sig.args[0]), ir.IntType(64)
        columns = long(len(sig.args[1])) if len(sig.args[1]) else None
        numbers = context.make_array(sig.args[3])(context, builder, args[3]).data
        parts = []
        for lane in range(SLICE):
            place = builder.gep(numbers, [builder.add(args[4], long(lane))])
            row = builder.zext(builder.load(place), long)
            at = _pointer(context, builder, sig.args[2], args[2], row, args[5], width, columns)
            parts.append(builder.load(at, align=8))
        return _joined(builder, parts)

    kind = Lanes(SLICE * len(like))
    return kind(like, wide, array, indices, types.uint64, types.uint64), emit


@intrinsic
def load_rows(typing, array, row, column):  # noqa: ARG001
    """array[row : row + 8, column] of a contiguous matrix."""

    def emit(context, builder, sig, args):
        long = ir.IntType(64)
        parts = []
        for lane in range(SLICE):
            at = builder.add(args[1], long(lane))
            place = _pointer(context, builder, sig.args[0], args[0], at, args[2], 1)
            parts.append(builder.load(place, align=8))
        return _joined(builder, parts)

    return Lanes(SLICE)(array, types.uint64, types.uint64), emit


@intrinsic
def store_rows(typing, array, row, column, value):  # noqa: ARG001
    """array[row : row + 8, column] = value."""

    def emit(context, builder, sig, args):
        long = ir.IntType(64)
        for lane in range(SLICE):
            at = builder.add(args[1], long(lane))
            place = _pointer(context, builder, sig.args[0], args[0], at, args[2], 1)
            one = ir.Constant(ir.VectorType(ir.IntType(32), 1), [lane])
            builder.store(builder.shuffle_vector(args[3], args[3], one), place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.uint64, value), emit


@intrinsic
def prefetch(typing, array, place):  # noqa: ARG001
    """Ask for the line of the cache that array[place] is in; a place beyond the array does no harm."""

    def emit(context, builder, sig, args):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        name = "llvm.prefetch.p0"
        called = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        start = context.make_array(sig.args[0])(context, builder, args[0]).data
        at = builder.bitcast(builder.gep(start, [args[1]]), byte)
        builder.call(called, [at, word(0), word(3), word(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), emit


@intrinsic
def every(typing, like, before, value):  # noqa: ARG001
    """One number for each of eight rows, of a value with W for each: that behind len(before) others."""

    def emit(context, builder, sig, args):  # noqa: ARG001
        order = [lane * len(sig.args[0]) + len(sig.args[1]) for lane in range(SLICE)]
        mask = ir.Constant(ir.VectorType(ir.IntType(32), SLICE), order)
        return builder.shuffle_vector(args[2], args[2], mask)

    return Lanes(SLICE)(like, before, value), emit


@intrinsic
def add_in_turn(typing, total, value):  # noqa: ARG001
    """total + value[0] + value[1] + ..., rounded after every term."""

    def emit(context, builder, sig, args):  # noqa: ARG001
        found = args[0]
        for lane in range(sig.args[1].width):
            found = builder.fadd(found, builder.extract_element(args[1], ir.IntType(32)(lane)))
        return found

    return types.float64(types.float64, value), emit


@intrinsic
def add_first(typing, total, term, count):  # noqa: ARG001
    """total + term in the first `count` lanes, total in the others."""

    def emit(context, builder, sig, args):  # noqa: ARG001
        lanes, long = sig.args[0].width, ir.IntType(64)
        kind = ir.VectorType(long, lanes)
        numbers = ir.Constant(kind, list(range(lanes)))
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), args[2], ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        counts = builder.shuffle_vector(one, one, mask)
        within = builder.icmp_unsigned("<", numbers, counts)
        return builder.select(within, builder.fadd(args[0], args[1]), args[0])

    return total(total, term, types.uint64), emit


@intrinsic
def repeat(typing, like, numbers, first):  # noqa: ARG001
    """Each of the eight numbers[first : first + 8] W times, as `take` has its rows."""

    def emit(context, builder, sig, args):
        width = len(sig.args[0])
        start = context.make_array(sig.args[1])(context, builder, args[1]).data
        place = builder.bitcast(
            builder.gep(start, [args[2]]), ir.VectorType(_DOUBLE, SLICE).as_pointer()
        )
        eight = builder.load(place, align=8)
        order = [lane for lane in range(SLICE) for _ in range(width)]
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)
        return builder.shuffle_vector(eight, ir.Constant(eight.type, ir.Undefined), mask)

    return Lanes(SLICE * len(like))(like, numbers, types.uint64), emit


def _joined(builder, parts):
    """Vectors of one width, one after the other."""
    while len(parts) > 1:
        width = 2 * parts[0].type.count
        mask = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(width)))
        parts = [
            builder.shuffle_vector(a, b, mask) for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


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

    @intrinsic
    def compute(typing, a, b):  # noqa: ARG001
        kind = a if isinstance(a, Lanes) else b

        def both(context, builder, sig, args):  # noqa: ARG001
            wide = [
                value if isinstance(given, Lanes) else _splat(builder, value, kind.width)
                for value, given in zip(args, sig.args, strict=True)
            ]
            return getattr(builder, emit)(*wide)

        return kind(*(k if isinstance(k, Lanes) else types.float64 for k in (a, b))), both

    @overload(sign)
    def rule(a, b):
        sides = (a, b)
        if any(isinstance(k, Lanes) for k in sides) and all(
            isinstance(k, Lanes | types.Float) for k in sides
        ):
            return lambda a, b: compute(a, b)
        return None

    return rule


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
