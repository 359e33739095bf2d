"""``accountant sweep PLAN --vary NAME.KEY=A:B:N --out FILE``: prices of a plan over a grid of its numbers."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

from accountant.cli.arguments import add_plan, add_route, read_plan, route
from accountant.errors import PlanError, shorten
from accountant.events.composition import Composition
from accountant.plan import Plan
from accountant.plan_numbers import state_the_same
from accountant.processes import heed_termination
from accountant.sweep import BLOCK, Call, Task, block_at, check_task, count_rows, price_block
from accountant.terminal import delta_of, number, show_work, space_evenly, whole

__all__ = ["add_sweep"]

MOST = 10**9
"""Largest number of settings in a sweep."""

MOST_VALUES = 10**6
"""Largest number of values of one --vary, which memory holds."""

ROUTES_TAKEN = {
    "renyi": "by the Rényi route; `accountant epsilon` may say less, and --method auto prices as it does",
    "tight": "by the tight route",
    "auto": "by the route of `accountant epsilon`",
}
"""How prices in the file were found."""


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
    add_route(parser, "renyi")
    add("--jobs", type=whole, help="workers (default: one per core)")
    add("--again", action="store_true", help="compute again, and replace FILE that holds a finished sweep")
    add("--skip-errors", action="store_true", help="nan for settings that cannot be priced, instead of stopping")


@dataclass(frozen=True)
class _Make:
    """A plan with some of its numbers replaced; picklable."""

    plan: Plan
    targets: tuple[tuple[tuple[int, str], ...], ...]

    def __call__(self, *values: float) -> Composition:
        pairs = zip(self.targets, values, strict=True)
        return self.plan.with_numbers((place, value) for places, value in pairs for place in places).composition


def _run(options: argparse.Namespace) -> int:
    with heed_termination():
        return _sweep(options)


def _sweep(options: argparse.Namespace) -> int:
    # pools and databases, which no other command needs
    from accountant.cli.sweep_blocks import Work, price_missing
    from accountant.cli.sweep_files import SweepTable, check_sweep_output, refuse_beyond_disk, refuse_finished
    from accountant.cli.sweep_journal import SweepJournal

    plan = read_plan(options)
    out = check_sweep_output(options.out, options.plan, options.again)
    values, targets = _grid(plan, options.vary)
    delta = None if options.epsilon is not None else delta_of(plan, options.delta)
    if options.epsilon is not None and options.delta is not None:
        raise PlanError("--delta and --epsilon; accepted: one of them")
    errors = "nan" if options.skip_errors else "raise"
    task = check_task(delta, options.epsilon, errors, **route(options))
    size = count_rows(values)
    if size > MOST:
        raise PlanError(f"{size} settings; accepted: up to {MOST}")
    refuse_beyond_disk(out, size, len(values))
    call = Call(_Make(plan, targets), tuple(values), by_keyword=False)
    with show_work("pricing the first setting"):  # an error of all settings is raised before the work begins
        price_block(call, task, block_at(values, 0, length=1))
    journal = SweepJournal(Path(f"{out}.partial"), _fingerprint(plan, values, task), size)
    try:
        with journal:
            if not options.again:  # another sweep, which had the journal until now, may have made it
                refuse_finished(out)
            price_missing(journal, Work(call, task, values), options.jobs)
            SweepTable(values, journal).write(out, options.again)
    except KeyboardInterrupt as ended:
        kept = f"{journal.done} of {size} settings are kept in {journal.path}; the same command goes on with them"
        raise type(ended)(kept if journal.done else "nothing was priced, nothing is kept") from None
    journal.remove()
    failed = f", {journal.failed} of them could not be priced" if journal.failed else ""
    print(f"{out}: {size} settings{failed}; {ROUTES_TAKEN[task.method]}")
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
        targets = tuple(plan.targets(name, as_written=True))
        before = [target for place in places for target in place]
        taken = any(state_the_same(*pair) for target in targets for pair in product([target], before))
        if taken or any(state_the_same(*pair) for pair in combinations(targets, 2)):
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
            if rest not in ([], ["log"]) or not 1 <= int(count) <= MOST_VALUES:
                raise ValueError
            ends = float(low), float(high)
            if not all(map(math.isfinite, ends)) or (rest and min(ends) <= 0):
                raise ValueError
            points = space_evenly(*ends, int(count), by_factor=bool(rest))
        else:
            points = [float(part) for part in written.split(",")]
        if not all(math.isfinite(point) for point in points):
            raise ValueError
    except ValueError:
        accepted = (
            f"A:B:N, A:B:N:log (both ends above 0) or A,B,C, finite as B - A is, N at least 1 and at most {MOST_VALUES}"
        )
        raise PlanError(f"--vary {text}: accepted: {accepted}") from None
    if whole_number:
        broken = [point for point in points if not point.is_integer()]
        if broken:
            raise PlanError(f"--vary {text}: {shorten(broken[0])} is not a whole number; accepted: whole numbers only")
        return [int(point) for point in points]
    return points


def _fingerprint(plan: Plan, values: dict[str, list[Any]], task: Task) -> str:
    import hashlib

    from accountant import __version__

    parts = [__version__, "rows", repr(plan.tables), repr(plan.written), repr(values), repr(task), str(BLOCK)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
