"""Compiled scalar kernels.

Importing this module does not import numba: a `Kernel` is compiled (or read back from numba's cache on
disk) when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray", "Kernel"]

FloatArray = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")


class Kernel(Generic[P, R]):
    """A pure scalar function of floats and arrays, compiled by numba on first use and cached on disk.

    Kernels may call each other by name. No fastmath: it would turn infinities into nan.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    @cached_property
    def compiled(self) -> Any:
        return _numba().njit(cache=True, error_model="numpy")(self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.compiled(*args, **kwargs)
        return result


_ready = False


def _numba() -> Any:
    """Import numba, teach it that a Kernel stands for its compiled self, and drop stale caches."""
    global _ready
    import numba
    from numba.extending import typeof_impl

    if not _ready:
        # numba looks only at the file in which a cached kernel stands, but a kernel inlines those that it calls.
        package = Path(__file__).parent.parent
        newest = max(source.stat().st_mtime for source in package.rglob("*.py"))
        for index in package.rglob("__pycache__/*.nbi"):
            with suppress(FileNotFoundError):  # another process was faster
                if index.stat().st_mtime < newest:
                    index.unlink()

        @typeof_impl.register(Kernel)
        def typeof_kernel(value: Kernel[..., Any], context: Any) -> Any:
            return numba.types.Dispatcher(value.compiled)

        _ready = True
    return numba
