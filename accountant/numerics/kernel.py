"""Compiled scalar kernels.

Importing this module does not import numba: a `Kernel` is compiled (or read back from the cache on disk) when it is
first called.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.cache import compile_function

__all__ = ["FirstCalls", "FloatArray", "Kernel", "first_calls"]

FloatArray = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")


class FirstCalls:
    """First calls of kernels in this process, which compile them or read them from disk.

    Attributes
    ----------
    running : str or None
        The kernel whose first call has not returned.
    seconds : float
        What all of them took.
    count : int
    """

    def __init__(self) -> None:
        self.running: str | None = None
        self.seconds = 0.0
        self.count = 0


first_calls = FirstCalls()


class Kernel(Generic[P, R]):
    """A pure scalar function of floats and arrays, compiled by numba on first use and cached on disk.

    Kernels may call each other by name. No fastmath: it would turn infinities into nan.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._called = False

    @cached_property
    def compiled(self) -> Any:
        _teach_numba()
        return compile_function(self.function, error_model="numpy")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = (self.compiled if self._called else self._call_first)(*args, **kwargs)
        return result

    def _call_first(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        start, outer, first_calls.running = time.perf_counter(), first_calls.running, self.__name__
        try:
            result = self.compiled(*args, **kwargs)
        finally:
            first_calls.running = outer
        self._called = True
        first_calls.seconds += time.perf_counter() - start
        first_calls.count += 1
        return result


_ready = False


def _teach_numba() -> None:
    """Teach numba that a Kernel stands for its compiled self."""
    global _ready
    if _ready:
        return
    import numba
    from numba.extending import typeof_impl

    @typeof_impl.register(Kernel)
    def typeof_kernel(value: Kernel[..., Any], context: Any) -> Any:
        return numba.types.Dispatcher(value.compiled)

    _ready = True
