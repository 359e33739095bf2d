"""``accountant compare PLAN PLAN ...``: plans side by side, what differs, and which costs less."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from accountant.cli.arguments import add_route, read_source, route
from accountant.errors import DataDependentError, PlanError
from accountant.guarantee import Guarantee, format_down, format_up
from accountant.plan import Plan
from accountant.price import epsilon
from accountant.summary import value_in_words
from accountant.tables import Column, Down, Table, Up, add_forms, write_table
from accountant.terminal import delta_of, number, show_work

__all__ = ["add_compare", "find_differences", "judge"]


def add_compare(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Compare plans: what differs, and which costs less."
    parser = commands.add_parser("compare", help=text, description=text)
    parser.set_defaults(run=_run)
    parser.add_argument(
        "plan", nargs="+", metavar="PLAN", help="two or more: TOML files, names of built-in plans, - for standard input"
    )
    parser.add_argument("--delta", type=number, help="where to compare (default: the smallest of the plans' deltas)")
    add_route(parser)
    add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    if len(options.plan) < 2:
        raise PlanError(f"{options.plan[0]}: one plan; accepted: two or more")
    if options.plan.count("-") > 1:
        raise PlanError(f"- for {options.plan.count('-')} plans; accepted: at most once")
    plans = [read_source(source) for source in options.plan]
    for plan in plans:
        if plan.composition.data_dependent:
            raise DataDependentError(f"{plan.name}: its cost depends on private data; accepted: other plans")
    delta = min(delta_of(plan, options.delta) for plan in plans)
    with show_work("pricing"):
        prices = [epsilon(plan.composition, delta, **route(options)) for plan in plans]
    verdict = judge(plans, prices, options.delta)
    rows = [*_price_rows(plans, prices), *find_differences(plans)]
    names = [plan.name for plan in plans]
    table = Table(
        f"{len(plans)} plans at delta = {format_up(delta)}",
        [Column(""), *(Column(name, "value") for name in names)],
        rows,
        notes=verdict,
    )
    record = {
        "delta": delta,
        "plans": [{"plan": plan.name, **price.as_dict()} for plan, price in zip(plans, prices, strict=True)],
        "differences": [{"what": what, "values": values} for what, *values in find_differences(plans)],
        "verdict": verdict,
    }
    write_table(table, options.form, record)
    return 0


def _price_rows(plans: Sequence[Plan], prices: Sequence[Guarantee]) -> list[list[Any]]:
    rows: list[list[Any]] = [
        ["epsilon", *(Up(price.epsilon) for price in prices)],
        ["certified from below", *(None if price.lower is None else Down(price.lower) for price in prices)],
        ["route", *(price.method for price in prices)],
        ["adjacency", *(str(price.adjacency or "any") for price in prices)],
        ["releases", *(plan.composition.releases for plan in plans)],
    ]
    if len({plan.delta for plan in plans}) > 1:
        rows.append(["delta in the plan", *(None if plan.delta is None else Up(plan.delta) for plan in plans)])
    return rows


def find_differences(plans: Sequence[Plan]) -> list[list[Any]]:
    """What the plans state differently, release by release."""
    stated: list[dict[str, Any]] = []
    for plan in plans:
        lines = zip(plan.releases, plan.tables["release"], strict=True)
        values = {
            f"{release.name}: {key}": value_in_words(value) if isinstance(value, dict | list) else value
            for release, line in lines
            for key, value in ({"event": line.get("event"), "count": release.count} | dict(line)).items()
            if key != "name"
        }
        stated.append(values)
    every = dict.fromkeys(key for values in stated for key in values)
    rows = [[key, *(values.get(key) for values in stated)] for key in every]
    return [row for row in rows if any(value != row[1] for value in row[2:])]


def judge(plans: Sequence[Plan], prices: Sequence[Guarantee], given: float | None) -> list[str]:
    """Which plan costs less, and how far that can be said."""
    notes = []
    if given is None and len({plan.delta for plan in plans}) > 1:
        notes.append("The plans state different deltas: all are priced at the smallest, which --delta replaces.")
    kinds = {price.adjacency for price in prices} - {None}
    if len(kinds) > 1:
        return [
            *notes,
            "Their adjacency differs, so their epsilons do not compare: under add-remove a record is added or removed, "
            "under replace its content changes, as by one removal and one addition.",
        ]
    order = sorted(range(len(plans)), key=lambda i: prices[i].epsilon)
    first, second = order[:2]
    names, uppers = [plan.name for plan in plans], [format_up(price.epsilon) for price in prices]
    if prices[first].epsilon == prices[second].epsilon:
        return [*notes, f"{names[first]} and {names[second]} cost the same, epsilon = {uppers[first]}."]
    text = f"{names[first]} has the lowest epsilon, {uppers[first]}; the next is {names[second]} with {uppers[second]}"
    lowest = min(prices[i].lower or 0.0 for i in order[1:])
    if prices[first].epsilon <= lowest:
        return [*notes, f"{text}. It is certified to cost less: all others cost at least {format_down(lowest)}."]
    return [*notes, f"{text}. These are upper bounds: the exact values may be the other way round; see --tolerance."]
