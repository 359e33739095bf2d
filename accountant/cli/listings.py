"""``accountant list``, ``plans`` and ``show``: events, and the built-in plans."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from accountant.cli.completion import complete_event, complete_plan, complete_with
from accountant.errors import PlanError
from accountant.plan import EVENTS, builtin_plans, load_plan, parameters_of
from accountant.price import epsilon
from accountant.renyi.conversion import CONVERSIONS
from accountant.tables import Column, Table, add_forms, print_json, write_table
from accountant.terminal import delta_of, show_work

__all__ = ["add_listings"]


def add_listings(commands: Any) -> None:
    """Add the subcommands to a parser's commands."""
    text = "Events with their parameters, and built-in plans."
    listed = commands.add_parser("list", help=text, description=text)
    event = listed.add_argument("event", nargs="?", metavar="EVENT", help="everything about one event")
    complete_with(event, complete_event)
    listed.set_defaults(run=_run_list)
    text = "Price all built-in plans."
    plans = commands.add_parser("plans", help=text, description=text)
    plans.set_defaults(run=_run_plans)
    for parser in (listed, plans):
        add_forms(parser)
    text = "Print a built-in plan, as a start for your own."
    show = commands.add_parser("show", help=text, description=text)
    complete_with(show.add_argument("plan", metavar="PLAN", help="the name of a built-in plan"), complete_plan)
    show.set_defaults(run=_run_show)


def _run_list(options: argparse.Namespace) -> int:
    events = {name: parameters_of(kind) for name, kind in EVENTS.items()}
    if options.event is not None:
        if options.event not in EVENTS:
            raise PlanError(f"unknown event {options.event!r}; accepted: {', '.join(EVENTS)}")
        events = {options.event: events[options.event]}
        if options.form == "table":
            print(inspect.getdoc(EVENTS[options.event]))
            return 0
    if options.form == "json":
        print_json(
            {
                "events": {name: {p.name: p.default for p in keys} for name, keys in events.items()},
                "plans": {name: load_plan(name).description for name in builtin_plans()},
            }
        )
        return 0
    about = [
        (name, ", ".join(map(str, keys)), (EVENTS[name].__doc__ or "").split("\n")[0]) for name, keys in events.items()
    ]
    kept = Column("event", wrap=False)
    title = "Events (every release also takes name, count, sampling_rate, group_size)"
    write_table(Table(title, [kept, Column("parameters"), Column("what it is")], about), options.form)
    if options.form in ("csv", "latex") or options.event is not None:
        return 0  # one table
    plans = [(name, load_plan(name).description) for name in builtin_plans()]
    if options.form == "markdown":
        print()
    write_table(Table("Built-in plans", [Column("plan", wrap=False), Column("what it is")], plans), options.form)
    return 0


def _run_plans(options: argparse.Namespace) -> int:
    found = []
    with show_work("pricing the built-in plans"):
        for name in builtin_plans():
            plan = load_plan(name)
            run, at = plan.composition, delta_of(plan, None)
            prices = {conversion: epsilon(run, at, conversion=conversion) for conversion in CONVERSIONS}
            found.append((plan, at, prices))
    if options.form == "json":
        print_json(
            {
                plan.name: {"delta": at, "data_dependent": plan.composition.data_dependent}
                | {rule: None if price.data_dependent else price.epsilon for rule, price in prices.items()}
                for plan, at, prices in found
            }
        )
        return 0
    rows = []
    for plan, at, prices in found:
        secret = plan.composition.data_dependent
        shown = options.form == "table" or not secret
        costs = [price.epsilon if shown else None for price in prices.values()]
        adjacency = str(next(iter(prices.values())).adjacency)
        rows.append([plan.name + " *" * secret, at, *costs, adjacency])
    table = Table(
        "Built-in plans: epsilon by conversion",
        [
            Column("plan", wrap=False),
            Column("delta", "number", wrap=False),
            *(Column(rule, "up", wrap=False) for rule in CONVERSIONS),
            Column("adjacency", wrap=False),
        ],
        rows,
        notes=["* depends on private votes: private itself, do not publish it"],
    )
    write_table(table, options.form)
    return 0


def _run_show(options: argparse.Namespace) -> int:
    from importlib import resources

    plan = load_plan(options.plan)
    if plan.name not in builtin_plans():
        raise PlanError(f"{plan.name!r} is not a built-in plan; accepted: {', '.join(builtin_plans())}")
    print(resources.files("accountant.plans").joinpath(f"{plan.name}.toml").read_text("utf-8"), end="")
    return 0
