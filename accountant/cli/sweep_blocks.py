"""Prices the settings that a sweep still lacks, in blocks of a second or two, each kept as soon as it is priced."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from accountant.cli.sweep_journal import SweepJournal
from accountant.errors import PlanError
from accountant.numerics.kernel import FloatArray
from accountant.processes import count_processors, prepare_worker
from accountant.sweep import Call, Task, Values, block_at, block_length, price_block
from accountant.tables import console

__all__ = ["Work", "price_missing"]

SECONDS = 1.5
"""After so long a worker gives back what it has priced, whatever the method."""

ALONE = 2.0
"""Seconds of work before other processes are started, which takes about as long."""

Piece = tuple[int, int]


@dataclass(frozen=True)
class Work:
    """What to price."""

    call: Call
    task: Task
    values: Values

    def price(self, piece: Piece) -> FloatArray:
        """The first rows of a piece: as many as `SECONDS` allow, at least one."""
        start, end = piece
        return price_block(self.call, self.task, block_at(self.values, start, length=end - start), SECONDS)


def price_missing(journal: SweepJournal, work: Work, jobs: int | None) -> None:
    """Price all that is not in the journal, with a bar on a terminal.

    Raises
    ------
    PlanError
        A worker was ended by somebody else; what was priced is kept.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    workers = jobs or count_processors()
    bar = (TextColumn("settings"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(
        *bar, TimeRemainingColumn(), console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        steps = progress.add_task("settings", total=journal.size, completed=journal.done, rate="")
        begin, before = time.monotonic(), journal.done
        for start, block in _price_pieces(_pieces(journal, work, workers), work, workers):
            journal.add(start, block)
            rate = (journal.done - before) / max(time.monotonic() - begin, 1e-9)
            progress.update(steps, completed=journal.done, rate=f"{rate:.3g} per second")


def _pieces(journal: SweepJournal, work: Work, workers: int) -> deque[Piece]:
    """The gaps of the journal in pieces; blocks that are priced together begin at multiples of their length."""
    length = block_length(work.call, work.task, block_at(work.values, 0, length=1), journal.size, workers)
    pieces: deque[Piece] = deque()
    for start, end in journal.missing():
        while start < end:
            stop = min(end, (start // length + 1) * length)
            pieces.append((start, stop))
            start = stop
    return pieces


def _price_pieces(pieces: deque[Piece], work: Work, workers: int) -> Iterator[tuple[int, FloatArray]]:
    """Blocks in the order in which they are finished; what a worker leaves of a piece is done next."""
    end = time.monotonic() + ALONE
    while pieces and (workers == 1 or len(pieces) == 1 or time.monotonic() < end):
        start, stop = pieces.popleft()
        block = work.price((start, stop))
        if start + len(block) < stop:
            pieces.appendleft((start + len(block), stop))
        yield start, block
    if pieces:
        yield from _share_pieces(pieces, work, workers)


_given: Work | None = None
"""What the pieces of a worker are of. It gets that once, as pieces must be short: whoever sends one to a worker that is
gone waits for ever when the pipe is full."""


def _begin_worker(parent: int, work: Work) -> None:
    global _given
    prepare_worker(parent)
    _given = work


def _price_piece(piece: Piece) -> FloatArray:
    assert _given is not None
    return _given.price(piece)


def _share_pieces(pieces: deque[Piece], work: Work, workers: int) -> Iterator[tuple[int, FloatArray]]:
    """The same by several processes."""
    others = set(multiprocessing.active_children())
    running: dict[Future[FloatArray], Piece] = {}
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_worker,
        initargs=(os.getpid(), work),
    )
    try:
        while pieces or running:
            while pieces and len(running) < 2 * workers:
                piece = pieces.popleft()
                running[pool.submit(_price_piece, piece)] = piece
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                (start, stop), block = running.pop(future), future.result()
                if start + len(block) < stop:
                    pieces.appendleft((start + len(block), stop))
                yield start, block
    except BrokenProcessPool:
        raise PlanError(
            "a worker was ended from outside, perhaps for want of memory; accepted: the same command, which goes on "
            "with what is kept, or --jobs 1"
        ) from None
    finally:
        # at an error or Ctrl-C nobody waits for what is running
        for process in set(multiprocessing.active_children()) - others if running else ():
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
