"""The machine's limit: a = b + 3 c over arrays beyond the cache, on all threads (as STREAM does).

24 bytes are counted per number, as STREAM counts them. The loop is compiled twice: by the C compiler
of the system with -O3 -march=native -fopenmp, and by numba on slices of the arrays (a loop over
first..last of the whole arrays does not become vector instructions, and reaches half as much). The
faster of the two is the limit.
"""

import ctypes
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np

from veilsum.simulation.workers import Workers, threads

COUNT = 20_000_000
BYTES = 24 * COUNT
C, NUMBA = "triad in C", "triad in numba"
FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
SOURCE = """
void triad(double *restrict a, const double *restrict b, const double *restrict c, long n, int k)
{
#pragma omp parallel for schedule(static) num_threads(k)
    for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}
"""


@numba.njit(nogil=True)
def _part(a: Any, b: Any, c: Any) -> None:
    for i in range(a.size):
        a[i] = b[i] + 3.0 * c[i]


def triads(workers: Workers) -> dict[str, Any]:
    """Closures that run one triad: the one in C where there is a compiler, and numba's."""
    a, b, c = (np.ones(COUNT) for _ in range(3))
    edges = [COUNT * k // threads() for k in range(threads() + 1)]
    pieces = [tuple(x[i:j] for x in (a, b, c)) for i, j in pairwise(edges)]
    found: dict[str, Any] = {NUMBA: lambda: workers.each(lambda piece: _part(*piece), pieces)}
    library = _compiled()
    if library is not None:
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
        size = ctypes.c_long(COUNT)
        found[C] = lambda: (library.triad(*pointers, size, threads()), a)  # a keeps the memory
    return found


def _compiled() -> Any:
    """The triad as a library; None without a C compiler that knows OpenMP."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "triad.c"), Path(folder, "triad.so")
        source.write_text(SOURCE)
        done = subprocess.run([compiler, *FLAGS, str(source), "-o", str(made)], capture_output=True)
        return ctypes.CDLL(str(made)) if done.returncode == 0 else None


def limit(found: dict[str, float]) -> tuple[float, str]:
    """Bytes a second of the faster triad of a race, and a sentence that names both."""
    rates = {name: BYTES / found[name] for name in (C, NUMBA) if name in found}
    said = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in rates.items())
    return max(rates.values()), said if C in rates else f"{said} (no C compiler here)"
