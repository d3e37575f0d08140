"""Products of a sparse matrix and a vector by others, each in its own best form, on all threads.

Whatever is installed takes part; what is not is named with the command that installs it.
"""

import ctypes
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np

from veilsum.simulation.workers import threads

GRAPHBLAS, MKL, SCIPY = "graphblas", "MKL", "scipy"
INSTALL = {GRAPHBLAS: "pip install 'python-graphblas[suitesparse]'", MKL: "pip install mkl"}
CALLS = 1000  # products that MKL prepares for
_GENERAL, _NO_TRANSPOSE, _BASE0 = 20, 10, 0


class _Kind(ctypes.Structure):
    """MKL's `matrix_descr`."""

    _fields_ = [("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int)]


def products(matrix: Any) -> dict[str, Any]:
    """Closures that multiply one vector, by name; scipy's on one thread."""
    x = np.random.default_rng(2).normal(size=matrix.shape[0])
    found: dict[str, Any] = {SCIPY: lambda: matrix @ x}
    if util.find_spec("graphblas") is not None:
        found[GRAPHBLAS] = _graphblas(matrix, x)
    library = _mkl_library()
    if library is not None:
        found[MKL] = _mkl(library, matrix, x)
    return found


def missing(found: Any) -> str:
    """What could not take part, and how to install it."""
    absent = [f"{name} is not installed ({INSTALL[name]})" for name in INSTALL if name not in found]
    return "; ".join(absent)


def _graphblas(matrix: Any, x: Any) -> Any:
    import graphblas as gb  # type: ignore[import-untyped]

    held = gb.Matrix.from_csr(matrix.indptr, matrix.indices, matrix.data, ncols=matrix.shape[1])
    vector = gb.Vector.from_dense(x)
    return lambda: held.mxv(vector, gb.semiring.plus_times).new().wait()


def _mkl_library() -> Any:
    """MKL's one library, from the wheel that is installed."""
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return None
    names = ("libmkl_rt.so", "libmkl_rt.dylib", "mkl_rt")
    there = [Path(str(f.locate())) for f in files if f.name.startswith(names)]
    return ctypes.CDLL(str(there[0].resolve())) if there else None


def _mkl(library: Any, matrix: Any, x: Any) -> Any:
    """The product after `mkl_sparse_set_mv_hint` and `mkl_sparse_optimize`."""
    library.MKL_Set_Num_Threads(threads())
    indptr = matrix.indptr.astype(np.int32, copy=False)
    indices, data = matrix.indices.astype(np.int32, copy=False), matrix.data
    y, handle, kind = np.empty_like(x), ctypes.c_void_p(), _Kind(_GENERAL, 0, 0)

    def at(array: Any, skip: int = 0) -> Any:
        return ctypes.c_void_p(array.ctypes.data + skip * array.itemsize)

    size = ctypes.c_int(matrix.shape[0])
    _done(
        library.mkl_sparse_d_create_csr(
            ctypes.byref(handle),
            _BASE0,
            size,
            size,
            at(indptr),
            at(indptr, 1),
            at(indices),
            at(data),
        )
    )
    _done(library.mkl_sparse_set_mv_hint(handle, _NO_TRANSPOSE, kind, CALLS))
    _done(library.mkl_sparse_optimize(handle))
    one, zero = ctypes.c_double(1.0), ctypes.c_double(0.0)

    def multiply() -> Any:
        _done(library.mkl_sparse_d_mv(_NO_TRANSPOSE, one, handle, kind, at(x), zero, at(y)))
        return indptr, indices, data  # which MKL reads

    multiply()
    if not np.allclose(y, matrix @ x):
        raise RuntimeError("MKL's product is another one")
    return multiply


def _done(status: int) -> None:
    if status:
        raise RuntimeError(f"MKL returned status {status}")
