"""Options that several commands share, and the plan that they name."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from accountant.cli.completion import complete_number, complete_plan, complete_with
from accountant.errors import DataDependentError, PlanError
from accountant.patience import PATIENCE
from accountant.plan import PLAN_KEYS, Plan, parse_float, parse_tables, read_plan_text
from accountant.price import ROUTES
from accountant.renyi.conversion import CONVERSIONS
from accountant.terminal import number

__all__ = [
    "TOLERANCE",
    "WIDTH",
    "add_patience",
    "add_plan",
    "add_route",
    "change_plan",
    "read_plan",
    "read_source",
    "refuse_private",
    "route",
]

TOLERANCE = 0.01
"""Relative width of certified intervals, in every command that is not told another."""

WIDTH = f"width of certified intervals, relative to their upper ends (default {TOLERANCE})"
"""What --tolerance is."""


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the plan, and --set, which changes numbers in it."""
    add = parser.add_argument
    text = "a TOML file, the name of a built-in plan, or - for standard input"
    complete_with(add("plan", metavar="PLAN", help=text), complete_plan)
    changes = add(
        "--set",
        action="append",
        default=[],
        dest="changes",
        metavar="NAME.KEY=VALUE",
        help="another value in the plan, such as votes.sigma=30 or adjacency=replace (repeatable)",
    )
    complete_with(changes, complete_number)


def add_route(parser: argparse.ArgumentParser, usual: str | None = None, work: str = "tight prices") -> None:
    """Add what chooses the route to a price: `usual`, else "auto", or "renyi" where a conversion is named.

    `work` is what the patience is for.
    """
    add = parser.add_argument
    text = usual or "auto: tight where it is to be had, else renyi; renyi with --conversion"
    add("--method", default=usual, choices=ROUTES, help=f"route to the price (default {text})")
    add("--tolerance", type=number, default=TOLERANCE, help=WIDTH)
    add_patience(parser, work)
    add("--conversion", choices=CONVERSIONS, help="Rényi to epsilon (default improved)")


def add_patience(parser: argparse.ArgumentParser, what: str) -> None:
    """Add how long something may take."""
    text = f"seconds of work that {what} may take, counted before it is done (default {PATIENCE:g})"
    parser.add_argument("--patience", type=number, default=PATIENCE, metavar="SECONDS", help=text)


def route(options: argparse.Namespace) -> dict[str, Any]:
    """The chosen route, as keywords of the functions that price."""
    return {name: getattr(options, name) for name in ("method", "conversion", "tolerance", "patience")}


def read_plan(options: argparse.Namespace) -> Plan:
    """The plan that the options name, with the changes that they ask for."""
    return read_source(options.plan, options.changes)


def read_source(source: str, changes: Sequence[str] = ()) -> Plan:
    """A plan from a file, built in, or from standard input, with other values as `change_plan` sets them.

    Those at its top may be what makes it a plan, such as another adjacency.

    Raises
    ------
    PlanError
        It cannot be read, or is not a plan, or cannot be changed like that.
    """
    name, text = ("standard input", _read_input()) if source == "-" else (source, read_plan_text(source))
    tables = parse_tables(name, text)
    try:
        plan = Plan.from_tables(name, tables)
    except PlanError:
        top = {key: value for key, value in map(_read_change, changes) if _is_at_top(key)}
        if not top:
            raise
        plan = Plan.from_tables(name, {**tables, **top})
    return change_plan(plan, changes)


def _read_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise PlanError(f"standard input: {error}; accepted: a plan as UTF-8 text in TOML") from None


def change_plan(plan: Plan, changes: Sequence[str]) -> Plan:
    """The plan with other values; each change is NAME.KEY=VALUE, or KEY=VALUE for what stands at its top.

    Its description, which may tell values that were changed, says so.

    Raises
    ------
    PlanError
        A change is not of that form, the plan has no such value, or the value is out of range.
    """
    for change in changes:
        name, value = _read_change(change)
        try:
            if _is_at_top(name):
                plan = Plan.from_tables(plan.name, {**plan.written, name: value})
            else:
                plan = plan.with_text(name, value)
        except PlanError as error:
            raise PlanError(f"--set {change}: {error}") from None
    if not changes or any(change.partition("=")[0].strip() == "description" for change in changes):
        return plan
    return replace(plan, description=f"{plan.description} (with {', '.join(changes)})".strip())


def _is_at_top(name: str) -> bool:
    return name in PLAN_KEYS and name != "release"


def _read_change(change: str) -> tuple[str, Any]:
    """What is changed, and the value that it gets."""
    name, equals, written = (part.strip() for part in change.partition("="))
    if not equals or not name or not written:
        raise PlanError(f"--set {change}: accepted: NAME.KEY=VALUE, such as votes.sigma=30")
    try:
        return name, _read_value(written)
    except PlanError as error:
        raise PlanError(f"--set {change}: {error}") from None


def _read_value(text: str) -> Any:
    """A value as TOML has it; what is none is text, so that quotes may be left out."""
    try:
        return tomllib.loads(f"value = {text}", parse_float=parse_float)["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise PlanError(f"not readable as TOML: {reason}; accepted: a number or text") from None


def refuse_private(plan: Plan, form: str) -> None:
    """Refuse to write costs that depend on private data where they are passed on.

    Raises
    ------
    DataDependentError
        The plan's cost depends on private data, and the form is not the table for a terminal.
    """
    if form != "table" and plan.composition.data_dependent:
        raise DataDependentError(
            f"this plan's cost depends on private data; accepted with --{form}: data-independent plans"
        )
