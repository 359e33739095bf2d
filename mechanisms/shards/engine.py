"""How tasks are run on Dask: with the scheduler that the user chose, again where workers died."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import accountant as ac
from mechanisms.validation import require

__all__ = ["ShardError", "compute", "count_workers", "worker_memory"]

TRIES = 20
"""How often a question is asked again after workers died; Dask itself gives a task to three other workers each time."""

PATIENCE = 100.0
"""Seconds without any worker after which a question is given up."""

FAN_IN = 8
"""Answers that are put together in one task."""


class ShardError(ac.AccountantError, RuntimeError):
    """The workers or the scheduler of Dask are gone; what was charged stays charged, and nothing more was released."""


def compute(
    what: str,
    work: Callable[..., Any],
    inputs: Sequence[tuple[Any, ...]],
    question: Any,
    merge: Callable[[Any], Any] | None = None,
) -> Any:
    """Run ``work(*inputs[i], question)`` for every i, and put the results together.

    Parameters
    ----------
    what : str
        Name of the tasks.
    work : callable
        Without side effects: a task whose worker dies is run again.
    inputs : sequence of tuple
        May hold Dask's delayed values, and its pieces of collections.
    question : object
    merge : callable, optional
        Puts a list of results together, some at a time, on the workers. None returns the list.

    Raises
    ------
    ShardError
        Workers died again and again, or the scheduler is gone.
    """
    dask = require("dask", "cluster")
    for _ in range(TRIES):
        # new names each time: Dask must not give an earlier run's results for others
        run = f"{what}-{uuid.uuid4().hex}"
        asked = dask.delayed(question, name=f"question-{run}", traverse=False)
        task = dask.delayed(work, pure=False)
        layer = [task(*each, asked, dask_key_name=f"{run}-{i}") for i, each in enumerate(inputs)]
        level = 0
        while merge is not None and len(layer) > 1:
            level += 1
            groups = [layer[start : start + FAN_IN] for start in range(0, len(layer), FAN_IN)]
            join = dask.delayed(merge, pure=False)
            layer = [join(each, dask_key_name=f"merge-{run}-{level}-{i}") for i, each in enumerate(groups)]
        try:
            found = _gather(dask, layer)
        except Exception as error:
            if _lost_workers(error):
                continue
            if _lost_scheduler(error):
                raise ShardError("Dask's scheduler is gone; accepted: one that runs, and the same run again") from None
            raise
        except asyncio.CancelledError:
            raise ShardError("Dask's scheduler is gone; accepted: one that runs, and the same run again") from None
        return found if merge is None else found[0]
    accepted = "workers with more memory, or smaller partitions, and the same run again"
    raise ShardError(f"workers died again and again; accepted: {accepted}")


def _gather(dask: Any, layer: Sequence[Any]) -> list[Any]:
    """Results of delayed tasks, unless there is no worker for a long time."""
    client = None if dask.config.get("scheduler", None) is not None else _client()
    if client is None:
        return list(dask.compute(*layer))
    futures, seen = client.compute(list(layer)), time.monotonic()
    while True:
        try:
            sys.modules["distributed"].wait(futures, timeout=PATIENCE / 20)
            return list(client.gather(futures))
        except TimeoutError:
            if _workers():
                seen = time.monotonic()
            elif time.monotonic() > seen + PATIENCE:
                client.cancel(futures)
                accepted = "workers of Dask that run, and the same run again"
                raise ShardError(f"no worker for {PATIENCE:g} seconds; accepted: {accepted}") from None


def _lost_workers(error: BaseException) -> bool:
    """Whether Dask gave up a task, because too many workers died that had it."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(error, distributed.KilledWorker)


def _lost_scheduler(error: BaseException) -> bool:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    return isinstance(error, distributed.comm.CommClosedError | concurrent.futures.CancelledError)


def _client() -> Any:
    """The present client of a cluster, or None."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.get_client()
    except ValueError:
        return None


def _workers() -> list[dict[str, Any]] | None:
    """What the present client knows of its workers; None without a client."""
    client = _client()
    return None if client is None else list(client.scheduler_info(n_workers=-1)["workers"].values())


def count_workers() -> int:
    """Tasks that can run at once."""
    known = _workers()
    if known is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(int(sum(each["nthreads"] for each in known)), 1)


def worker_memory() -> float | None:
    """Bytes of memory for each thread of the smallest worker; None if there is no limit."""
    limits = [each["memory_limit"] / each["nthreads"] for each in _workers() or () if each["memory_limit"]]
    return min(limits, default=None)
