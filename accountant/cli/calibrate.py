"""``accountant calibrate PLAN --epsilon E``: the most economical value of a number for a target."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from accountant.calibration import Tries
from accountant.cli.arguments import TOLERANCE, add_plan, add_route, read_plan, refuse_private, route
from accountant.cli.completion import complete_number, complete_with
from accountant.cli.pricing import present
from accountant.errors import (
    AccountantError,
    CalibrationError,
    OutOfPatience,
    PlanError,
    ProfileUnavailable,
    ToleranceUnreachable,
    count_of,
)
from accountant.guarantee import Guarantee, format_up
from accountant.numerics.decimals import format_exact, format_up_short
from accountant.patience import PATIENCE, allow_work, check_patience, share_patience
from accountant.plan import Plan
from accountant.plan_lines import UNITS
from accountant.plan_numbers import INNER, inner_table
from accountant.price import choose_route, epsilon
from accountant.renyi.route import pool_of
from accountant.summary import cautions
from accountant.tables import Column, Table, add_forms, write_table
from accountant.targets import calibrate
from accountant.terminal import delta_of, number, show_work

__all__ = ["add_calibrate"]


def add_calibrate(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Find the most economical value of a number in a plan for a target."
    parser = commands.add_parser("calibrate", help=text, description=text)
    parser.set_defaults(run=_run)
    add_plan(parser)
    add = parser.add_argument
    vary = add(
        "--vary",
        metavar="NAME.KEY",
        help="the number to vary; A.KEY,B.KEY: one value for both (default: propose numbers, with their values)",
    )
    complete_with(vary, complete_number)
    add("--epsilon", type=number, required=True, help="the target")
    add("--delta", type=number, help="instead of the plan's delta")
    add_route(parser, work="the tight prices of the search, or of all proposals together,")
    add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    plan = read_plan(options)
    delta = delta_of(plan, options.delta)
    refuse_private(plan, options.form)
    if options.vary is None:
        return _propose(plan, options, delta)
    with show_work(f"searching {options.vary}"):
        value, bounds, integer = _calibrate(plan, options.vary, options.epsilon, delta, route(options))
        solved = plan.with_text(options.vary, value)
        price = epsilon(solved.composition, delta, **route(options))
    solved = replace(solved, description=f"with {options.vary} = {value!r}")
    if options.form == "table":
        print(f"{options.vary} = {value!r}")
        if _ends_range(plan, options.vary, value, bounds, integer):
            print("every value in its range meets the target; this is the end of the range")
    present(solved, price, options.form, {"vary": options.vary, "value": value})
    return 0


def _calibrate(
    plan: Plan, vary: str, target: float, delta: float, how: dict[str, Any]
) -> tuple[float, tuple[float, float], bool]:
    """The value that meets the target, the range that was searched, and whether only whole numbers were."""
    targets = plan.targets(vary, as_written=True)
    keys = {key for _, key in targets}
    kinds = {plan.whole(*each) for each in targets}
    integer = True in kinds
    if len(kinds) > 1:
        raise PlanError(
            f"--vary {vary}: {', '.join(sorted(keys))} cannot share a value; accepted: only "
            "keys that take whole numbers, or none"
        )
    bounds = _bounds(plan, targets, integer)
    value = calibrate(
        Tries(lambda x: plan.with_text(vary, int(x) if integer else x).composition, marked=True),
        target,
        delta,
        bounds=bounds,
        start=plan.value(vary) or 1.0,
        integer=integer,
        **how,
    )
    return int(value) if integer else value, bounds, integer


def _bounds(plan: Plan, targets: list[tuple[int, str]], integer: bool) -> tuple[float, float]:
    """Where a value is searched; a batch has no more records than there are."""
    low, high = (1.0, 1e15) if integer else (1e-9, 1e12)
    for index, key in targets:
        written, last = inner_table(plan.written["release"][index], key)
        if last == "sampling_rate":
            low, high = min(low, 1e-15), 1.0
        elif last == "epochs":
            high = min(high, 1e9)
        elif last == "batch":
            high = min(high, float(written["records"]))
        elif last == "records":
            low = max(low, float(written["batch"]))
    return low, high


def _ends_range(plan: Plan, vary: str, value: float, bounds: tuple[float, float], integer: bool) -> bool:
    """Whether the varied number cannot go beyond `value`."""
    for neighbour in (value - 1, value + 1) if integer else (value * (1 - 1e-6), value * (1 + 1e-6)):
        try:
            plan.with_text(vary, int(neighbour) if integer else min(max(neighbour, 0.0), 1e300))
        except PlanError:
            return True
        if not bounds[0] <= neighbour <= bounds[1]:
            return True
    return False


# --- what could be varied ------------------------------------------------------------------------------


def _propose(plan: Plan, options: argparse.Namespace, delta: float) -> int:
    """Print what could be varied, one number or the same number of several releases, with the values it would get."""
    with show_work("searching what could be varied"):
        now, rows, refused = _try_all(plan, options, delta)
    useful = [row for row in rows if row[2] is not None]
    if not useful and refused:
        raise _refuse_all(refused, len(rows) + len(refused), options.patience)
    if not useful:
        raise CalibrationError(
            f"{plan.name}: no number that stands in the plan meets epsilon = {format_exact(options.epsilon)} alone; "
            "accepted: --vary A.KEY,B.KEY for several, or another target"
        )
    notes = [
        f"Now the plan costs epsilon = {format_up(now.epsilon)}{_say_how(now, options)}; "
        "each line changes only what it names.",
        f"For one of them: {_command(options, useful[0][0])}",
    ]
    if refused:
        notes.append(f"Left out: {_refuse_all(refused, len(rows) + len(refused), options.patience)}")
    notes += cautions(plan.composition)
    target = f"epsilon = {format_exact(options.epsilon)} at delta = {format_exact(delta)}"
    table = Table(
        title=f"{plan.name}: values that cost at most {target}",
        columns=[Column("--vary"), Column("now", "value"), Column("would be", "value"), Column("epsilon", "up")],
        rows=[[row[0], _write(row[1]), *row[2:]] for row in useful],
        notes=notes,
    )
    names = ("vary", "now", "value", "epsilon")
    proposals = [dict(zip(names, row, strict=True)) for row in useful]
    record = {"plan": plan.name, "target": options.epsilon, "delta": delta, "proposals": proposals}
    write_table(table, options.form, record | {"left_out": list(refused)})
    return 0


def _command(options: argparse.Namespace, vary: str) -> str:
    """The command that searches one number for the same target, as a shell reads it."""
    words = ["accountant", "calibrate", options.plan, "--vary", vary, "--epsilon", format_exact(options.epsilon)]
    if options.delta is not None:
        words += ["--delta", format_exact(options.delta)]
    words += [word for change in options.changes for word in ("--set", change)]
    for name in ("method", "conversion"):
        if (chosen := getattr(options, name)) is not None:
            words += [f"--{name}", chosen]
    for name, usual in (("tolerance", TOLERANCE), ("patience", PATIENCE)):
        if (chosen := getattr(options, name)) != usual:
            words += [f"--{name}", format_exact(chosen)]
    return shlex.join(words)


def _say_how(now: Guarantee, options: argparse.Namespace) -> str:
    """Where a present price is no tight one, though one may be had: all lines share the patience."""
    chosen, _ = choose_route(options.method, options.conversion)
    if chosen != "auto" or now.method != "renyi" or now.epsilon == 0.0:
        return ""
    return " by the Rényi route (a tight price has no more than its part of the patience)"


Row = list[Any]
"""A line: what it varies, the present value, the value that meets the target, and its price."""


def _try_all(
    plan: Plan, options: argparse.Namespace, delta: float
) -> tuple[Guarantee, list[Row], dict[str, OutOfPatience]]:
    """The price as it is, the lines, and refusals of others, with the patience that would do for all lines.

    All share the patience: each may take an equal part of what those before it left.
    """
    seconds, names = check_patience(options.patience), list(_candidates(plan))
    rows, refused = list[Row](), dict[str, OutOfPatience]()
    with allow_work(seconds, pool_of(seconds)) as work:
        lines = len(names) + 1
        try:
            with share_patience(1 / lines):
                now = epsilon(plan.composition, delta, **route(options))
        except OutOfPatience as error:
            error.seconds *= lines
            raise _refuse_all({"the present price": error}, lines, seconds) from None
        for place, vary in enumerate(names):
            begun, lines = work.taken, len(names) - place
            try:
                with share_patience(1 / lines):
                    found = _try(plan, vary, options.epsilon, delta, route(options))
            except OutOfPatience as error:
                error.seconds = begun + lines * (error.seconds - begun)
                refused[vary] = error
            else:
                rows.append([vary, _now(plan, vary), *found])
    return now, rows, refused


def _refuse_all(refused: dict[str, OutOfPatience], lines: int, patience: float) -> OutOfPatience:
    """One refusal of all lines that take more than their part of the patience."""
    said, _, _ = str(next(iter(refused.values()))).partition(", patience = ")
    about = max(error.seconds for error in refused.values())
    return OutOfPatience(
        f"{', '.join(refused)}, out of {count_of(lines, 'line')} that share the patience ({said}), "
        f"patience = {patience:g}; accepted: patience = {format_up_short(about)} at least, or --vary for one alone",
        about,
    )


def _now(plan: Plan, vary: str) -> float | list[float | None] | None:
    """The value that all numbers named have, or that of each."""
    values = [plan.value(name) for name in vary.split(",")]
    return values[0] if len(set(values)) == 1 else values


def _write(present: object) -> str:
    """Present values in a table; those that the plan does not state are left out as "-"."""
    values = present if isinstance(present, list) else [present]
    return ", ".join("-" if value is None else f"{value:.6g}" for value in values)


def _candidates(plan: Plan) -> Iterator[str]:
    """Numbers that stand in the plan: first one value for the same number of all releases, then each alone.

    What the noise is measured by is left out: it costs what its ratio to the noise costs.
    """
    stated: dict[str, list[str]] = {}
    for place, (release, line) in enumerate(zip(plan.releases, plan.tables["release"], strict=True)):
        written = plan.written["release"][place]
        own = [key for key in ("batch", "epochs") if key in written]
        for key in dict.fromkeys((*own, *_keys(line), "count")):
            if key.rpartition(".")[2] not in UNITS and _can_vary(plan, f"{release.name}.{key}"):
                stated.setdefault(key, []).append(f"{release.name}.{key}")
    for key, names in stated.items():
        if len(names) > 1 and key != "count":
            yield ",".join(names)
    for names in stated.values():
        yield from names


def _keys(line: Mapping[str, Any]) -> Iterator[str]:
    """Keys of a release, and of the table of its own that it may have."""
    yield from line
    if isinstance(within := line.get(INNER), Mapping):
        yield from (f"{INNER}.{key}" for key in _keys(within))


def _can_vary(plan: Plan, target: str) -> bool:
    """Whether there is such a number; what stands in a plan but is none is a name, an event or a table."""
    try:
        return bool(plan.targets(target, as_written=True))
    except PlanError:
        return False


def _try(plan: Plan, vary: str, target: float, delta: float, how: dict[str, Any]) -> tuple[float | None, float | None]:
    """The value that meets the target, with its price; Nones where there is none."""
    try:
        value, _, _ = _calibrate(plan, vary, target, delta, how)
        found: Guarantee = epsilon(plan.with_text(vary, value).composition, delta, **how)
    except (ProfileUnavailable, ToleranceUnreachable):
        raise
    except AccountantError:  # not monotone in this number, or no value is enough
        return None, None
    return value, min(found.epsilon, target)  # the search certified the target, with more patience than is left now
