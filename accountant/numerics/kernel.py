"""Compiled scalar kernels.

Importing this module does not import numba: a `Kernel` is compiled (or read back from the cache on disk) when it is
first called.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from accountant.numerics.cache import compile_function

__all__ = ["FirstCalls", "FloatArray", "Interface", "Kernel", "SummingKernel", "first_calls"]

FloatArray = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")


class FirstCalls:
    """First calls of kernels in this process, which compile them or read them from disk.

    Attributes
    ----------
    compiling : int
        How many functions are being compiled, each for the one before; none while one is read from disk.
    seconds : float
        What all of them took.
    count : int
    """

    def __init__(self) -> None:
        self.compiling = 0
        self.seconds = 0.0
        self.count = 0


first_calls = FirstCalls()


class Kernel(Generic[P, R]):
    """A pure scalar function of floats and arrays, compiled by numba on first use and cached on disk.

    Kernels may call each other by name. No fastmath: it would turn infinities into nan.
    """

    options: ClassVar[dict[str, Any]] = {"error_model": "numpy", "no_cfunc_wrapper": True}

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._called = False

    @cached_property
    def compiled(self) -> Any:
        _teach_numba()
        return compile_function(self.function, **self.options)

    @cached_property
    def within(self) -> Any:
        """The same for other kernels, which need no wrapper for calls from Python: a tenth of the time to compile."""
        return compile_function(self.function, **self.options, no_cpython_wrapper=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = (self.compiled if self._called else self._call_first)(*args, **kwargs)
        return result

    def _call_first(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        start = time.perf_counter()
        result = self.compiled(*args, **kwargs)
        self._called = True
        first_calls.seconds += time.perf_counter() - start
        first_calls.count += 1
        return result


class SummingKernel(Kernel[P, R]):
    """A kernel whose sums are added in whatever order is quickest, several terms at once. Infinities stay infinite."""

    options: ClassVar[dict[str, Any]] = {**Kernel.options, "fastmath": {"reassoc"}}


class Interface(Generic[R]):
    """Calls one of several compiled functions of one signature, by its address, within kernels.

    A kernel that is called by its name is compiled into the one that calls it, whether or not this run gets there, and
    optimised again with it. One that is called by its address is compiled once, and only where somebody asks for it.

    Parameters
    ----------
    result : R
        Some value of the type that they return.
    *arguments
        Some values of the types that they take.
    """

    def __init__(self, result: R, *arguments: Any) -> None:
        self._result, self._arguments = result, arguments
        self._interpreted: list[Callable[..., R]] = []
        self._compiled: list[Any] = []  # what is called by its address stays in memory

    def address_of(self, function: Callable[..., R]) -> int:
        """Where the function is, once compiled; for one that numba is told not to compile, its number."""
        if numba().config.DISABLE_JIT:
            self._interpreted.append(function)
            return len(self._interpreted) - 1
        _teach_numba()
        start = time.perf_counter()
        compiled = compile_function(function, error_model="numpy", no_cpython_wrapper=True)
        self._compiled.append(compiled)
        compiled.compile(self._signature)
        (made,) = compiled.overloads.values()
        first_calls.seconds += time.perf_counter() - start
        first_calls.count += 1
        address: int = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
        return address

    def __call__(self, address: int, arguments: tuple[Any, ...]) -> R:
        """What the function at the address returns."""
        return self._interpreted[address](*arguments)

    @property
    def _signature(self) -> Any:
        typeof = numba().typeof
        return typeof(self._result)(*map(typeof, self._arguments))

    @cached_property
    def _call(self) -> Any:
        """The same call, as numba compiles it."""
        ir: Any = import_module("llvmlite.ir")
        types, signature = numba().types, self._signature

        def call(typing_context: Any, address: Any, arguments: Any) -> Any:
            def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
                given = [builder.extract_value(values[1], i) for i in range(len(signature.args))]
                result = context.get_value_type(signature.return_type)
                function = ir.FunctionType(result, [context.get_value_type(each) for each in signature.args])
                return builder.call(builder.inttoptr(values[0], function.as_pointer()), given)

            return signature.return_type(types.int64, types.Tuple(signature.args)), generate

        return numba().extending.intrinsic(call)


def numba() -> Any:
    """The module, which is not imported before it is needed."""
    import_module("numba.extending")
    return import_module("numba")


_ready = False


def _teach_numba() -> None:
    """Teach numba that a Kernel stands for its compiled self, and an Interface for its call; hear what it compiles."""
    global _ready
    if _ready:
        return
    from numba.core.registry import cpu_target
    from numba.extending import typeof_impl

    @typeof_impl.register(Kernel)
    def typeof_kernel(value: Kernel[..., Any], context: Any) -> Any:
        return numba().types.Dispatcher(value.within)

    @typeof_impl.register(Interface)
    def typeof_interface(value: Interface[Any], context: Any) -> Any:
        call, typing_context = value._call, cpu_target.typing_context
        typing_context.refresh()
        return typing_context.resolve_value_type(call)

    _count_compilations()
    _ready = True


def _count_compilations() -> None:
    """Keep `first_calls.compiling` up to date; numba tells what it compiles, and holds a lock meanwhile."""
    from numba.core.event import Listener

    class Count(Listener):
        def on_start(self, _: Any) -> None:
            first_calls.compiling += 1

        def on_end(self, _: Any) -> None:
            first_calls.compiling -= 1

    numba().core.event.register("numba:compile", Count())
