"""Prices of very many settings: each block of them is one compiled call; blocks run on all cores or on a cluster."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountant.axes import count_values, read_axis
from accountant.errors import AccountantError, DataDependentError, MissingExtra, ParameterError, integer, real, shorten
from accountant.events.composition import Composition
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.patience import PATIENCE, check_patience
from accountant.price import choose_route, delta, epsilon
from accountant.processes import count_processors, end_with_parent, free_memory
from accountant.renyi.conversion import Conversion
from accountant.renyi.route import renyi_deltas, renyi_epsilons

__all__ = [
    "BLOCK",
    "COLUMNS",
    "Call",
    "Task",
    "block_at",
    "block_length",
    "check_task",
    "column_at",
    "count_rows",
    "price_block",
    "sweep",
]

BLOCK = 2000
"""Settings that are priced in one compiled call, where they can be: a tenth of a second."""

SHARES = 8
"""Blocks for each worker, at least, where settings are priced one by one and may take long."""

START = 2.0
"""Seconds until workers have started, about: each imports the library and loads compiled functions."""

LOOK = 0.5
"""Seconds of work in this process before it looks, again and again, whether workers would be done sooner."""

VALUE = 40
"""Bytes that a value of a parameter takes in a list."""

COLUMNS = ("epsilon", "delta", "order")
"""What is found for every setting."""

Column = NDArray[Any]
Values = Mapping[str, Sequence[Any]]
Settings = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Task:
    """What to ask of every setting."""

    delta: float | None
    epsilon: float | None
    method: str
    conversion: Conversion
    tolerance: float
    strict: bool
    patience: float = PATIENCE


def sweep(
    make: Callable[..., Event | Composition],
    grid: Mapping[str, ArrayLike],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    method: str = "renyi",
    conversion: Conversion | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
    zipped: bool = False,
    errors: Literal["raise", "nan"] = "raise",
    n_jobs: int = -1,
    backend: str | None = None,
) -> dict[str, Column]:
    """Price every setting of a grid: one row each, in a fixed order, whatever the number of workers.

    The search for a setting's order begins where that of the setting before it ended: prices agree with those of
    `accountant.epsilon` to about 1e-14, and do not depend on the number of workers.

    Parameters
    ----------
    make : callable
        From one value of every parameter to a run. Called by keyword if it takes the grid's names, else by position.
        Workers receive it by pickling; joblib also takes functions that were defined interactively.
    grid : mapping
        Values by parameter name: numbers, or anything that `make` understands. Beside floats integers become floats,
        and are refused where that would change them; so are masked values.
    delta : float
        In [0, 1): find epsilon at it. 1e-5 if neither is given.
    epsilon : float
        Find delta at it instead.
    method, conversion, tolerance, patience
        As for `accountant.epsilon`, of each setting, but the default route is "renyi": it prices thousands of
        settings in one compiled call. By "tight" and "auto" each takes the time of a price.
    zipped : bool
        False: every combination, the last parameter varying fastest. True: the i-th values together.
    errors : {"raise", "nan"}
        What a setting that cannot be priced does: end the sweep with an error that names it, or yield nan.
    n_jobs : int
        Workers, at most; -1: one per core. They are started where they are done sooner, their start counted, than this
        process is alone: it prices the first settings, and sees how long these take.
    backend : str
        A joblib backend such as "loky", "threading" or "dask", whose workers price all but what is one block of
        settings; by default the one that ``joblib.parallel_config`` chose, else loky. With Dask, make a
        ``dask.distributed.Client`` first.

    Returns
    -------
    dict
        Arrays of one length: a column for every parameter, then "epsilon", "delta" and "order" (the Rényi order
        used; inf: the pure-DP limit; nan: none).

    Raises
    ------
    ParameterError
        A parameter is out of range; for a setting, the message begins with its values. The table would not fit in
        memory: nothing is priced then.
    DataDependentError
        A run's cost depends on private data: a table of such costs must not be passed on.
    MissingExtra
        Several workers were asked for by number or backend, and joblib is not installed.
    """
    prices = {"method": method, "conversion": conversion, "tolerance": tolerance, "patience": patience}
    task = check_task(delta, epsilon, errors, **prices)
    if not callable(make):
        raise ParameterError(f"make = {shorten(make)}; accepted: a function from a value of each parameter to a run")
    values = _check_grid(grid, zipped)
    call = Call(make, tuple(values), _takes_names(make, tuple(values)))
    size = count_rows(values, zipped)
    workers = _workers(n_jobs, backend)
    length = block_length(call, task, block_at(values, 0, zipped, 1), size, workers)
    parts: list[FloatArray] = []
    if backend is None or workers == 1 or size <= length:
        parts = _price_here(call, task, partial(block_at, values, zipped=zipped, length=length), size, workers)
    starts = range(sum(map(len, parts)), size, length)
    if starts:
        from joblib import Parallel, delayed, parallel_config

        price = delayed(_price_in_worker)
        work = (price(os.getpid(), call, task, block_at(values, start, zipped, length)) for start in starts)
        with parallel_config(backend=backend) if backend else nullcontext():
            parts += Parallel(n_jobs=n_jobs)(work)
    found = np.concatenate([np.empty((0, 3)), *parts])
    columns = {name: column_at(values, name, 0, size, zipped) for name in values}
    return columns | {name: found[:, i].copy() for i, name in enumerate(COLUMNS)}


def check_task(
    delta: float | None,
    epsilon: float | None,
    errors: str,
    **prices: Any,
) -> Task:
    """What to ask of every setting, or ParameterError; `prices` are method, conversion, tolerance and patience."""
    method, rule = choose_route(prices["method"], prices["conversion"])
    if delta is not None and epsilon is not None:
        raise ParameterError(f"delta = {shorten(delta)} and epsilon = {shorten(epsilon)}; accepted: one of them")
    if epsilon is not None:
        epsilon = real("epsilon", epsilon, 0.0, 1e300)
    else:
        delta = real("delta", 1e-5 if delta is None else delta, 0.0, 1.0, open_high=True)
    if not isinstance(errors, str) or errors not in ("raise", "nan"):
        raise ParameterError(f"errors = {shorten(errors)}; accepted: raise, nan")
    width = real("tolerance", prices["tolerance"], 1e-6, 1.0)
    seconds = check_patience(prices.get("patience", PATIENCE))
    return Task(delta, epsilon, method, rule, width, errors == "raise", seconds)


def _check_grid(grid: Mapping[str, ArrayLike], zipped: bool) -> dict[str, Sequence[Any]]:
    """Values by name, as plain Python numbers."""
    if not isinstance(grid, Mapping) or not grid:
        raise ParameterError(f"grid = {shorten(grid)}; accepted: a dict from names to one or more lists of values")
    for name in grid:
        if not isinstance(name, str) or name in COLUMNS:
            raise ParameterError(f"parameter name {shorten(name)}; accepted: text other than {', '.join(COLUMNS)}")
    _refuse_beyond_memory([count_values(column) for column in grid.values()], zipped)
    values: dict[str, Sequence[Any]] = {}
    for name, column in grid.items():
        values[name] = read_axis(name, column)
    lengths = {name: len(column) for name, column in values.items()}
    if zipped and len(set(lengths.values())) > 1:
        raise ParameterError(f"lengths {lengths}; accepted: equal ones where zipped")
    return values


def _takes_names(make: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Whether `make` takes these names; otherwise values are passed by position."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    keywords = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return any(p.kind is p.VAR_KEYWORD for p in parameters) or set(names) <= keywords


def _workers(n_jobs: int, backend: str | None) -> int:
    """Number of workers, 1 where joblib is not installed and nothing but "all cores" was asked for."""
    jobs = integer("n_jobs", n_jobs, -1, 10**6)
    if jobs == 0:
        raise ParameterError("n_jobs = 0; accepted: -1 for one per core, or at least 1")
    if find_spec("joblib") is None:
        if jobs > 1 or backend is not None:
            raise MissingExtra("several workers need joblib: pip install 'knn-accountant[cluster]'")
        return 1
    return jobs


def count_rows(values: Values, zipped: bool = False) -> int:
    """Settings in a grid."""
    lengths = [len(column) for column in values.values()]
    return lengths[0] if zipped else math.prod(lengths)


def column_at(values: Values, name: str, start: int, end: int, zipped: bool = False) -> Column:
    """A parameter's values in the settings from `start` to before `end`."""
    places = np.arange(start, end)
    if not zipped:
        names, sizes = list(values), [len(column) for column in values.values()]
        places = places // math.prod(sizes[names.index(name) + 1 :]) % max(sizes[names.index(name)], 1)
    return np.array(values[name])[places]


def block_length(call: Call, task: Task, first: Settings, size: int, workers: int) -> int:
    """Settings in a block: always the same where they are priced together, so that results are; else a fair share."""
    if workers < 0:
        workers = count_processors()
    try:
        runs = [call(setting) for setting in first]
        if not runs or _price_together(task, runs, [0], np.empty((1, 3))):
            return BLOCK
    except AccountantError:  # of this setting; others may do
        return BLOCK
    return min(BLOCK, max(1, math.ceil(size / (SHARES * workers))))


def _refuse_beyond_memory(lengths: Sequence[int], zipped: bool) -> None:
    """Refuse, before any memory is used, a table that does not fit: twice, as it is put together from blocks."""
    size = max(lengths) if zipped else math.prod(lengths)
    needed = 2 * 8 * (len(lengths) + len(COLUMNS)) * size + VALUE * sum(lengths)
    held = free_memory()
    if needed > held:
        raise ParameterError(
            f"{size} settings need {needed / 1e9:.3g} GB of {held / 1e9:.3g} GB of free memory; accepted: fewer, or "
            "the command accountant sweep, which writes to its file as it goes"
        )


def block_at(values: Values, start: int, zipped: bool = False, length: int = BLOCK) -> list[tuple[Any, ...]]:
    """Settings start, start + 1, ..., the last parameter varying fastest."""
    end = min(start + length, count_rows(values, zipped))
    if zipped:
        return list(zip(*(column[start:end] for column in values.values()), strict=True))
    shape = [len(column) for column in values.values()]
    places = np.unravel_index(np.arange(start, end), shape)
    chosen = ([column[i] for i in place.tolist()] for column, place in zip(values.values(), places, strict=True))
    return list(zip(*chosen, strict=True))


@dataclass(frozen=True)
class Call:
    """How to make a run of a setting."""

    make: Callable[..., Event | Composition]
    names: tuple[str, ...]
    by_keyword: bool = True

    def __call__(self, setting: tuple[Any, ...]) -> Composition:
        run = self.make(**dict(zip(self.names, setting, strict=True))) if self.by_keyword else self.make(*setting)
        if isinstance(run, Event):
            run = 1 * run
        if not isinstance(run, Composition):
            raise ParameterError(f"make returned {shorten(run)}; accepted: an event or a composition")
        if run.data_dependent:
            raise DataDependentError("this run's cost depends on private data; accepted: data-independent runs")
        return run

    def named(self, setting: tuple[Any, ...]) -> str:
        """The setting, for a message."""
        return ", ".join(f"{name} = {shorten(value)}" for name, value in zip(self.names, setting, strict=True))


def _price_here(call: Call, task: Task, block: Callable[[int], Settings], size: int, workers: int) -> list[FloatArray]:
    """Blocks from the first on, priced in this process: all, or those before workers would be done sooner."""
    parts: list[FloatArray] = []
    done = before = 0
    begin = time.monotonic()
    while done < size:
        parts.append(price_block(call, task, block(done), math.inf if workers == 1 else LOOK))
        done += len(parts[-1])
        spent = time.monotonic() - begin
        if before == 0:  # what the first one loads the others find loaded
            begin, before = time.monotonic(), done
        elif spent >= LOOK and _is_shared_sooner(spent / (done - before) * (size - done), workers):
            break
    return parts


def _is_shared_sooner(seconds: float, workers: int) -> bool:
    """Whether workers do so many seconds of work sooner than this process alone, their start counted."""
    if workers == 1 or seconds <= START:
        return False
    from joblib import effective_n_jobs

    left_to_others: float = 1 - 1 / effective_n_jobs(workers)
    return seconds * left_to_others > START


def _price_in_worker(parent: int, call: Call, task: Task, settings: Settings) -> FloatArray:
    end_with_parent(parent)
    return price_block(call, task, settings)


def price_block(call: Call, task: Task, settings: Settings, seconds: float = math.inf) -> FloatArray:
    """(epsilon, delta, order) of every setting, shape (n, 3).

    Where settings are priced one by one, those that were not begun after so many `seconds` are left out: then n is
    smaller than their number, but at least 1.
    """
    end = time.monotonic() + seconds
    table = np.full((len(settings), 3), math.nan)
    runs: list[Composition] = []
    rows: list[int] = []
    for i, setting in enumerate(settings):
        try:
            runs.append(call(setting))
            rows.append(i)
        except AccountantError as error:
            _fail(call, task, setting, error)
    if runs and not _price_together(task, runs, rows, table):
        for i, run in zip(rows, runs, strict=True):
            if i > 0 and time.monotonic() > end:
                return table[:i]
            try:
                table[i] = _price_one(task, run)
            except AccountantError as error:
                _fail(call, task, settings[i], error)
    return table


def _fail(call: Call, task: Task, setting: tuple[Any, ...], error: AccountantError) -> None:
    """Raise the error again with the setting in front, unless failures are to be nan."""
    if task.strict or isinstance(error, DataDependentError):
        raise type(error)(f"{call.named(setting)}: {error}") from None


def _price_together(task: Task, runs: list[Composition], rows: list[int], table: FloatArray) -> bool:
    """Price all runs in one compiled call, where all their events can be; whether that was possible."""
    if task.method != "renyi" or task.delta == 0.0:
        return False
    if task.epsilon is None:
        assert task.delta is not None
        found = renyi_epsilons(runs, np.full(len(runs), task.delta), task.conversion)
    else:
        found = renyi_deltas(runs, np.full(len(runs), task.epsilon), task.conversion)
    if found is None:
        return False
    table[rows, 0] = found.values if task.epsilon is None else task.epsilon
    table[rows, 1] = found.values if task.epsilon is not None else task.delta
    table[rows, 2] = found.orders
    return True


def _price_one(task: Task, run: Composition) -> tuple[float, float, float]:
    route: Any = {"method": task.method, "conversion": task.conversion}
    route |= {"tolerance": task.tolerance, "patience": task.patience}
    ask, at = (epsilon, task.delta) if task.epsilon is None else (delta, task.epsilon)
    price = ask(run, cast(float, at), **route)
    return price.epsilon, price.delta, math.nan if price.order is None else price.order
