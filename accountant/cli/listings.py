"""``accountant list``, ``plans`` and ``show``: events, and the built-in plans."""

from __future__ import annotations

import argparse
import inspect
from typing import Any, NamedTuple

from accountant.cli.completion import complete_event, complete_plan, complete_with
from accountant.errors import PlanError
from accountant.guarantee import Guarantee
from accountant.plan import EVENTS, Plan, builtin_plans, load_plan, parameters_of
from accountant.price import epsilon
from accountant.renyi.conversion import CONVERSIONS, Conversion
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
    # a terminal is narrow
    shown: tuple[Conversion, ...] = ("improved",) if options.form == "table" else CONVERSIONS
    found = []
    with show_work("pricing the built-in plans"):
        for name in builtin_plans():
            plan = load_plan(name)
            run, at = plan.composition, delta_of(plan, None)
            rules = {rule: epsilon(run, at, method="renyi", conversion=rule) for rule in shown}
            found.append(_Priced(plan, at, epsilon(run, at), rules))
    if options.form == "json":
        print_json({each.plan.name: each.record() for each in found})
        return 0
    table = Table(
        "Built-in plans: epsilon at most, and by the conversions of the Rényi route",
        [
            Column("plan", wrap=False),
            Column("delta", "exact", wrap=False),
            Column("epsilon", "up", wrap=False),
            Column("at least", "down", wrap=False),
            Column("route", wrap=False),
            *(Column(rule, "up", wrap=False) for rule in shown),
            Column("adjacency", wrap=False),
        ],
        [each.row(secrets=options.form == "table") for each in found],
        notes=["* depends on private votes: private itself, do not publish it"],
    )
    write_table(table, options.form)
    return 0


class _Priced(NamedTuple):
    """A plan, its delta, its price, and its prices by those conversions of the Rényi route that are shown."""

    plan: Plan
    delta: float
    price: Guarantee
    rules: dict[Conversion, Guarantee]

    def record(self) -> dict[str, Any]:
        """For JSON, without what is private."""
        secret = self.price.data_dependent
        costs = {"epsilon": self.price.epsilon, "lower": self.price.lower, "method": self.price.method}
        costs |= {rule: price.epsilon for rule, price in self.rules.items()}
        about = {"delta": self.delta, "data_dependent": secret}
        return about | {name: None if secret else cost for name, cost in costs.items()}

    def row(self, *, secrets: bool) -> list[Any]:
        """For a table; with what is private only where it stays on the screen."""
        secret = self.price.data_dependent
        converted = [price.epsilon for price in self.rules.values()]
        costs = [self.price.epsilon, self.price.lower, self.price.method, *converted]
        shown = costs if secrets or not secret else [None] * len(costs)
        return [self.plan.name + " *" * secret, self.delta, *shown, str(self.price.adjacency)]


def _run_show(options: argparse.Namespace) -> int:
    from importlib import resources

    plan = load_plan(options.plan)
    if plan.name not in builtin_plans():
        raise PlanError(f"{plan.name!r} is not a built-in plan; accepted: {', '.join(builtin_plans())}")
    print(resources.files("accountant.plans").joinpath(f"{plan.name}.toml").read_text("utf-8"), end="")
    return 0
