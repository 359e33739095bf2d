"""``accountant epsilon``, ``delta`` and ``curve``: what a plan costs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from accountant.cli.arguments import add_plan, add_route, read_plan, refuse_private, route
from accountant.delta_curve import curve
from accountant.guarantee import Guarantee
from accountant.plan import Plan
from accountant.price import choose_route, delta, epsilon, try_tight
from accountant.summary import assumptions, cautions, parameters_in_words, shares
from accountant.tables import Column, Table, add_forms, console, write_table
from accountant.terminal import delta_of, number, number_range, show_work, warn_of_delta

__all__ = ["add_pricing", "present"]


def add_pricing(commands: Any) -> None:
    """Add the subcommands to a parser's commands."""
    for name, run, text in (
        ("epsilon", _run_epsilon, "Price a plan: its epsilon at a delta."),
        ("delta", _run_delta, "Price a plan: its delta at an epsilon."),
        ("curve", _run_curve, "Delta at many epsilons."),
    ):
        parser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(run=run)
        add_plan(parser)
        if name == "epsilon":
            parser.add_argument("--delta", type=number, help="instead of the plan's delta")
        elif name == "delta":
            parser.add_argument("--epsilon", type=number, required=True, help="where to take delta")
        else:
            parser.add_argument("--epsilons", required=True, metavar="A:B:N", help="N values from A to B")
        add_route(parser)
        add_forms(parser)


def _run_epsilon(options: argparse.Namespace) -> int:
    plan = read_plan(options)
    refuse_private(plan, options.form)
    at = delta_of(plan, options.delta)
    with show_work("pricing"):
        price = epsilon(plan.composition, at, **route(options))
        why = _say_why(plan, price, options) if options.form == "table" else ""
    present(plan, price, options.form)
    if why:
        console().print(why)
    return 0


def _say_why(plan: Plan, price: Guarantee, options: argparse.Namespace) -> str:
    """Why a price is not a certified one, though one was asked for."""
    chosen, _ = choose_route(options.method, options.conversion)
    if chosen != "auto" or price.method != "renyi" or price.lower is not None or price.epsilon == 0.0:
        return ""
    found = try_tight(plan.composition, price.delta, options.tolerance, options.patience)
    return f"No certified price: {found}." if isinstance(found, str) else ""


def _run_delta(options: argparse.Namespace) -> int:
    plan = read_plan(options)
    refuse_private(plan, options.form)
    with show_work("pricing"):
        price = delta(plan.composition, options.epsilon, **route(options))
    warn_of_delta(plan, price.delta)
    present(plan, price, options.form, asked="delta")
    return 0


def _run_curve(options: argparse.Namespace) -> int:
    plan = read_plan(options)
    points = number_range("--epsilons", options.epsilons)
    refuse_private(plan, options.form)
    with show_work("pricing"):
        found = curve(plan.composition, points, **route(options))
    columns = {"epsilon": found.epsilons, "delta": found.upper, "lower": found.lower}
    values = {name: column.tolist() for name, column in columns.items()}
    table = Table(
        title=f"{plan.name}: delta by epsilon ({found.method})",
        columns=[Column("epsilon", "exact"), Column("delta", "up"), Column("at least", "down")],
        rows=list(zip(*values.values(), strict=True)),
        notes=cautions(plan.composition),
    )
    write_table(table, options.form, {"plan": plan.name, "method": found.method, **values})
    return 0


def present(
    plan: Plan, price: Guarantee, form: str, more: Mapping[str, Any] | None = None, *, asked: str = "epsilon"
) -> None:
    """Write what a plan costs, by its releases, and under which assumptions; `more` goes into the JSON object."""
    parts = shares(plan, price)
    record: dict[str, Any] | None = None
    if form == "json":
        releases = [
            {**line, "name": release.name, "count": release.count, "share": share}
            for release, line, share in zip(plan.releases, plan.tables["release"], parts, strict=True)
        ]
        record = {**price.as_dict(), "plan": plan.name, "releases": releases, **(more or {})}
    write_table(_table_of(plan, price, parts, asked, whole=form != "table"), form, record)


def _table_of(plan: Plan, price: Guarantee, parts: list[float], asked: str, *, whole: bool) -> Table:
    """The releases of a plan with their shares of its cost; `whole` adds a line with the price of all of them."""
    columns = [
        Column("release"),
        Column("event"),
        Column("sampling rate", "number"),
        Column("count", "count"),
        Column("share of the cost", "share"),
    ]
    rows: list[list[Any]] = []
    for release, line, share in zip(plan.releases, plan.tables["release"], parts, strict=True):
        event = f"{line['event']}: {parameters_in_words(line)}"
        rows.append([release.name, event, line.get("sampling_rate", "all"), release.count, share])
    if whole:
        columns += [
            Column("epsilon", "up"),
            Column("delta", "up"),
            Column(f"{asked} at least", "down"),
            Column("route"),
        ]
        costs = [price.epsilon, price.delta, price.lower, price.method]
        total = ["whole plan", "", None, plan.composition.releases, sum(parts), *costs]
        rows = [*([*row, None, None, None, None] for row in rows), total]
    return Table(
        title=plan.name,
        columns=columns,
        rows=rows,
        heading=price.heading(asked),
        caption=plan.description,
        notes=[str(price), *assumptions(plan)],
    )
