"""``accountant sweep PLAN --vary NAME.KEY=A:B:N --out FILE``: prices of a plan over a grid of its numbers."""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from accountant.cli.arguments import add_plan, add_route, read_plan
from accountant.cli.sweep_journal import SweepJournal
from accountant.errors import MissingExtra, PlanError, shorten
from accountant.events.composition import Composition
from accountant.files import check_output, open_whole
from accountant.numerics.kernel import FloatArray
from accountant.plan import Plan
from accountant.sweep import BLOCK, COLUMNS, Call, Task, block_at, check_task, count_rows, price_block
from accountant.terminal import console, delta_of, number, whole

__all__ = ["add_sweep"]

FORMATS = (".parquet", ".npz", ".csv")
MOST = 10**9
"""Largest number of settings in a sweep."""


def add_sweep(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Price a plan over a grid of its numbers; after an interruption, the same command continues."
    parser = commands.add_parser("sweep", help=text, description=text)
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add_plan(parser)
    add(
        "--vary",
        required=True,
        action="append",
        metavar="NAME.KEY=VALUES",
        help="A:B:N, N values from A to B; A:B:N:log, spaced evenly in their logarithms; or A,B,C (repeatable)",
    )
    add("--out", required=True, metavar="FILE", help="a file ending in .parquet, .npz or .csv")
    add("--delta", type=number, help="instead of the plan's delta")
    add("--epsilon", type=number, help="find delta at this epsilon instead")
    add_route(parser)
    add("--jobs", type=whole, help="workers (default: one per core)")
    add("--skip-errors", action="store_true", help="nan for settings that cannot be priced, instead of stopping")


@dataclass(frozen=True)
class _Make:
    """A plan with some of its numbers replaced; picklable."""

    plan: Plan
    targets: tuple[tuple[tuple[int, str], ...], ...]

    def __call__(self, *values: float) -> Composition:
        lines = [dict(line) for line in self.plan.tables["release"]]
        for targets, value in zip(self.targets, values, strict=True):
            for index, key in targets:
                lines[index][key] = value
        return Plan.from_tables(self.plan.name, {**self.plan.tables, "release": lines}).composition


def _run(options: argparse.Namespace) -> int:
    plan = read_plan(options)
    out = _check_output(options.out)
    values, targets = _grid(plan, options.vary)
    delta = None if options.epsilon is not None else delta_of(plan, options.delta)
    if options.epsilon is not None and options.delta is not None:
        raise PlanError("--delta and --epsilon; accepted: one of them")
    errors = "nan" if options.skip_errors else "raise"
    task = check_task(delta, options.epsilon, options.method, options.conversion, options.tolerance, errors)
    size = count_rows(values)
    if size > MOST:
        raise PlanError(f"{size} settings; accepted: up to {MOST}")
    call = Call(_Make(plan, targets), tuple(values), by_keyword=False)
    price_block(call, task, block_at(values, 0, length=1))  # an error of all settings is raised before the work begins
    journal = SweepJournal(Path(f"{out}.partial"), _fingerprint(plan, values, task), size)
    with journal:
        _price_missing(journal, call, task, values, options.jobs)
        found = journal.table()
    _write(out, {name: _column(values, name) for name in values} | dict(zip(COLUMNS, found.T, strict=True)))
    journal.remove()
    failed = int(np.isnan(found[:, 0]).sum())
    print(f"{out}: {size} settings" + (f", {failed} of them could not be priced" if failed else ""))
    return 0


# --- what to price ---------------------------------------------------------------------------------------


def _grid(plan: Plan, wanted: list[str]) -> tuple[dict[str, list[Any]], tuple[tuple[tuple[int, str], ...], ...]]:
    """Values by the name of what they vary, and the places in the plan that they replace."""
    values: dict[str, list[Any]] = {}
    places: list[tuple[tuple[int, str], ...]] = []
    for text in wanted:
        name, equals, written = text.partition("=")
        if not equals:
            raise PlanError(f"--vary {text}: accepted: NAME.KEY=A:B:N, such as screening.sigma=50:150:101")
        targets = tuple(plan.targets(name))
        taken = set(targets) & {target for place in places for target in place}
        if taken or name in values or len(set(targets)) < len(targets):
            raise PlanError(f"--vary {text}: varied twice; accepted: each number once")
        whole_number = any(plan.whole(*target) for target in targets)
        values[name] = _points(text, written, whole_number)
        places.append(targets)
    return values, tuple(places)


def _points(text: str, written: str, whole_number: bool) -> list[Any]:
    """The values of one --vary."""
    try:
        if ":" in written:
            low, high, count, *rest = written.split(":")
            if rest not in ([], ["log"]) or not 1 <= int(count) <= MOST:
                raise ValueError
            spaced = np.geomspace if rest else np.linspace
            ends = float(low), float(high)
            if not all(map(math.isfinite, ends)) or (rest and min(ends) <= 0):
                raise ValueError
            points: list[float] = spaced(*ends, int(count)).tolist()
        else:
            points = [float(part) for part in written.split(",")]
        if not all(math.isfinite(point) for point in points):
            raise ValueError
    except ValueError:
        accepted = "A:B:N, A:B:N:log (both ends above 0) or A,B,C, finite, N at least 1"
        raise PlanError(f"--vary {text}: accepted: {accepted}") from None
    if whole_number:
        broken = [point for point in points if not point.is_integer()]
        if broken:
            raise PlanError(f"--vary {text}: {shorten(broken[0])} is not a whole number; accepted: whole numbers only")
        return [int(point) for point in points]
    return points


def _fingerprint(plan: Plan, values: dict[str, list[Any]], task: Task) -> str:
    from accountant import __version__

    parts = [__version__, repr(plan.tables), repr(values), repr(task), str(BLOCK)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _price_missing(
    journal: SweepJournal, call: Call, task: Task, values: dict[str, list[Any]], jobs: int | None
) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    missing = [i for i in range(journal.blocks) if i not in journal.done]
    bar = (TextColumn("settings"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*bar, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        steps = progress.add_task("settings", total=journal.size, completed=len(journal.done) * BLOCK)
        for index, block in _price_blocks(missing, call, task, values, jobs):
            journal.add(index, block)
            progress.advance(steps, len(block))


def _price_indexed(index: int, call: Call, task: Task, settings: list[tuple[Any, ...]]) -> tuple[int, FloatArray]:
    return index, price_block(call, task, settings)


def _price_blocks(
    missing: list[int], call: Call, task: Task, values: dict[str, list[Any]], jobs: int | None
) -> Iterator[tuple[int, FloatArray]]:
    """Blocks in the order in which they are finished."""
    from importlib.util import find_spec

    work = ((index, call, task, block_at(values, index * BLOCK)) for index in missing)
    if jobs == 1 or len(missing) <= 1 or (jobs is None and find_spec("joblib") is None):
        return (_price_indexed(*each) for each in work)
    try:
        from joblib import Parallel, delayed
    except ImportError:
        raise MissingExtra("--jobs needs joblib: pip install 'knn-accountant[cluster]'") from None
    run = Parallel(n_jobs=jobs or -1, return_as="generator_unordered")
    blocks: Iterator[tuple[int, FloatArray]] = run(delayed(_price_indexed)(*each) for each in work)
    return blocks


# --- the table ----------------------------------------------------------------------------------------------


def _check_output(text: str) -> Path:
    out = check_output(text, FORMATS, name="--out", refuse=PlanError)
    if out.suffix == ".parquet":
        _parquet()
    return out


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet needs pyarrow: pip install 'knn-accountant[mechanisms]'; or .npz, .csv") from None
    return pyarrow, pyarrow.parquet


def _column(values: dict[str, list[Any]], name: str) -> FloatArray:
    """A parameter's value in every row."""
    names, sizes = list(values), [len(points) for points in values.values()]
    place = names.index(name)
    inner, outer = math.prod(sizes[place + 1 :]), math.prod(sizes[:place])
    return np.tile(np.repeat(np.array(values[name]), inner), outer)


def _write(out: Path, columns: dict[str, FloatArray]) -> None:
    """Write the table, wholly or not at all."""
    write = {".parquet": _write_parquet, ".npz": _write_npz, ".csv": _write_csv}[out.suffix]
    with open_whole(out, name="--out", refuse=PlanError) as file:
        write(file, columns)


def _write_parquet(file: BinaryIO, columns: dict[str, FloatArray]) -> None:
    pyarrow, parquet = _parquet()
    parquet.write_table(pyarrow.table(columns), file)


def _write_npz(file: BinaryIO, columns: dict[str, FloatArray]) -> None:
    np.savez_compressed(file, **columns)  # type: ignore[arg-type]  # names are text


def _write_csv(file: BinaryIO, columns: dict[str, FloatArray]) -> None:
    file.write((",".join(f'"{name}"' if "," in name else name for name in columns) + "\n").encode())
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        file.write((",".join(map(repr, row)) + "\n").encode())
