"""Command line: ``accountant epsilon PLAN.toml`` and the other subcommands.

Exit status 0 on success, 1 if ``verify`` finds a broken law, 2 on bad input.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from accountant.cli.plot import add_plot
from accountant.cli.report import add_report
from accountant.cli.sweep import add_sweep
from accountant.errors import DataDependentError, PlanError
from accountant.events.event import Event
from accountant.guarantee import Guarantee, format_down, format_up
from accountant.plan import EVENTS, Plan, builtin_plans, load_plan, parameters_of
from accountant.price import ROUTES, calibrate, curve, delta, epsilon
from accountant.renyi.conversion import CONVERSIONS
from accountant.summary import assumptions, parameters_in_words, shares
from accountant.terminal import (
    Parser,
    console,
    delta_of,
    number,
    number_range,
    print_json,
    run_command,
    short,
    whole,
)

__all__ = ["main", "make_parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return run_command("accountant", make_parser(), arguments)


def make_parser() -> Parser:
    """The parser of all commands; the documentation's reference of commands is made of it."""
    from accountant import __version__

    parser = Parser(prog="accountant", description="Privacy costs of planned experiments.")
    parser.add_argument("--version", action="version", version=f"accountant {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser, metavar="COMMAND")

    def command(name: str, run: Any, text: str, *, plan: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        if plan:
            added.add_argument("plan", metavar="PLAN", help="a TOML file, or the name of a built-in plan")
            added.add_argument("--method", default="renyi", choices=ROUTES, help="route to the price (default renyi)")
            added.add_argument("--tolerance", type=number, default=0.01, help="width of tight intervals (default 0.01)")
            added.add_argument(
                "--conversion", default="improved", choices=CONVERSIONS, help="Rényi to epsilon (default improved)"
            )
        added.add_argument("--json", action="store_true", help="one JSON object instead of a table")
        return added

    priced = command("epsilon", _run_epsilon, "Price a plan: its epsilon at a delta.")
    priced.add_argument("--delta", type=number, help="instead of the plan's delta")
    inverse = command("delta", _run_delta, "Price a plan: its delta at an epsilon.")
    inverse.add_argument("--epsilon", type=number, required=True, help="where to take delta")
    curved = command("curve", _run_curve, "Delta at many epsilons.")
    curved.add_argument("--epsilons", required=True, metavar="A:B:N", help="N values from A to B")
    found = command("calibrate", _run_calibrate, "Find the most economical value of a number in a plan for a target.")
    found.add_argument(
        "--vary", required=True, metavar="NAME.KEY", help="the number to vary; A.KEY,B.KEY: one value for both"
    )
    found.add_argument("--epsilon", type=number, required=True, help="the target")
    found.add_argument("--delta", type=number, help="instead of the plan's delta")
    add_plot(commands)
    add_sweep(commands)
    add_report(commands)
    listed = command("list", _run_list, "Events with their parameters, and built-in plans.", plan=False)
    listed.add_argument("event", nargs="?", metavar="EVENT", help="everything about one event")
    command("plans", _run_plans, "Price all built-in plans.", plan=False)
    text = "Print a built-in plan, as a start for your own."
    show = commands.add_parser("show", help=text, description=text)
    show.add_argument("plan", metavar="PLAN", help="the name of a built-in plan")
    show.set_defaults(run=_run_show)
    laws = command("verify", _run_verify, "Check events against the laws of privacy accounting.", plan=False)
    laws.add_argument("--event", action="append", metavar="MODULE:NAME", help="an event of your own (repeatable)")
    laws.add_argument("--examples", type=whole, default=50, help="random inputs per law (default 50)")
    return parser


# --- pricing -------------------------------------------------------------------------------------------


def _route(options: argparse.Namespace) -> dict[str, Any]:
    return {"method": options.method, "conversion": options.conversion, "tolerance": options.tolerance}


def _run_epsilon(options: argparse.Namespace) -> int:
    plan = load_plan(options.plan)
    price = epsilon(plan.composition, delta_of(plan, options.delta), **_route(options))
    return _present(plan, price, options.json)


def _run_delta(options: argparse.Namespace) -> int:
    plan = load_plan(options.plan)
    price = delta(plan.composition, options.epsilon, **_route(options))
    return _present(plan, price, options.json)


def _run_curve(options: argparse.Namespace) -> int:
    plan = load_plan(options.plan)
    points = number_range("--epsilons", options.epsilons)
    if options.json and plan.composition.data_dependent:
        raise DataDependentError(
            "this plan's cost depends on private data; accepted with --json: data-independent plans"
        )
    found = curve(plan.composition, points, **_route(options))
    if options.json:
        columns = {"epsilon": found.epsilons, "delta": found.upper, "lower": found.lower}
        print_json(
            {"plan": plan.name, "method": found.method, **{name: values.tolist() for name, values in columns.items()}}
        )
        return 0
    from rich.table import Table

    table = Table(title=f"{plan.name}: delta by epsilon ({found.method})", title_justify="left")
    for title in ("epsilon", "delta", "at least"):
        table.add_column(title, justify="right")
    for epsilon_, high, low in zip(found.epsilons, found.upper, found.lower, strict=True):
        table.add_row(f"{epsilon_:.6g}", format_up(float(high)), format_down(float(low)))
    console().print(table)
    return 0


def _run_calibrate(options: argparse.Namespace) -> int:
    plan = load_plan(options.plan)
    target_delta = delta_of(plan, options.delta)
    if options.json and plan.composition.data_dependent:
        raise DataDependentError(
            "this plan's cost depends on private data; accepted with --json: data-independent plans"
        )
    targets = plan.targets(options.vary)
    keys = {key for _, key in targets}
    route = _route(options)
    kinds = {plan.whole(*target) for target in targets}
    integer = True in kinds
    if len(kinds) > 1:
        raise PlanError(
            f"--vary {options.vary}: {', '.join(sorted(keys))} cannot share a value; accepted: only "
            "keys that take whole numbers, or none"
        )
    bounds = (1.0, 1e15) if integer else (1e-15, 1.0) if "sampling_rate" in keys else (1e-9, 1e12)
    value = calibrate(
        lambda x: plan.with_value(options.vary, x).composition,
        options.epsilon,
        target_delta,
        bounds=bounds,
        start=plan.value(options.vary) or 1.0,
        integer=integer,
        **route,
    )
    solved = plan.with_value(options.vary, value)
    price = epsilon(solved.composition, target_delta, **route)
    found = {"vary": options.vary, "value": value}
    solved = replace(solved, description=f"with {options.vary} = {value!r}")
    if not options.json:
        print(f"{options.vary} = {value!r}")
        if _ends_range(plan, options.vary, value, bounds, integer):
            print("every value in its range meets the target; this is the end of the range")
    return _present(solved, price, options.json, found)


def _ends_range(plan: Plan, vary: str, value: float, bounds: tuple[float, float], integer: bool) -> bool:
    """Whether the varied number cannot go beyond `value`."""
    for neighbour in (value - 1, value + 1) if integer else (value * (1 - 1e-6), value * (1 + 1e-6)):
        try:
            plan.with_value(vary, min(max(neighbour, 0.0), 1e300))
        except PlanError:
            return True
        if not bounds[0] <= neighbour <= bounds[1]:
            return True
    return False


def _present(plan: Plan, price: Guarantee, as_json: bool, extra: dict[str, Any] | None = None) -> int:
    parts = shares(plan, price)
    if as_json:
        releases = [
            {**line, "name": release.name, "count": release.count, "share": share}
            for release, line, share in zip(plan.releases, plan.tables["release"], parts, strict=True)
        ]
        print_json({**price.as_dict(), "plan": plan.name, "releases": releases, **(extra or {})})
        return 0
    from rich.table import Table

    screen = console()
    table = Table(title=plan.name, title_justify="left", caption=plan.description or None, caption_justify="left")
    table.add_column("release")
    table.add_column("event", overflow="fold")
    for title in ("sampling rate", "count", "share of the cost"):
        table.add_column(title, justify="right")
    for release, line, share in zip(plan.releases, plan.tables["release"], parts, strict=True):
        event = f"{line['event']}: {parameters_in_words(line)}"
        table.add_row(release.name, event, f"{line.get('sampling_rate', 'all')}", f"{release.count:,}", f"{share:.1%}")
    screen.print(f"epsilon = {format_up(price.epsilon)} at delta = {format_up(price.delta)}", style="bold")
    screen.print(table)
    screen.print(str(price))
    for line in assumptions(plan):
        screen.print(line)
    return 0


# --- listings ------------------------------------------------------------------------------------------


def _run_list(options: argparse.Namespace) -> int:
    events = {name: parameters_of(kind) for name, kind in EVENTS.items()}
    if options.event is not None:
        if options.event not in EVENTS:
            raise PlanError(f"unknown event {options.event!r}; accepted: {', '.join(EVENTS)}")
        events = {options.event: events[options.event]}
        if not options.json:
            print(inspect.getdoc(EVENTS[options.event]))
            return 0
    if options.json:
        print_json(
            {
                "events": {name: {p.name: p.default for p in keys} for name, keys in events.items()},
                "plans": {name: load_plan(name).description for name in builtin_plans()},
            }
        )
        return 0
    from rich.table import Table

    screen = console()
    table = Table(title="Events (every release also takes name, count, sampling_rate)", title_justify="left")
    table.add_column("event", no_wrap=True)
    table.add_column("parameters")
    table.add_column("what it is")
    for name, keys in events.items():
        table.add_row(name, ", ".join(map(str, keys)), (EVENTS[name].__doc__ or "").split("\n")[0])
    screen.print(table)
    plans = Table(title="Built-in plans", title_justify="left")
    plans.add_column("plan", no_wrap=True)
    plans.add_column("what it is")
    for name in builtin_plans():
        plans.add_row(name, load_plan(name).description)
    screen.print(plans)
    return 0


def _run_plans(options: argparse.Namespace) -> int:
    rows = []
    for name in builtin_plans():
        plan = load_plan(name)
        run, at = plan.composition, delta_of(plan, None)
        rows.append((plan, at, [epsilon(run, at, conversion=conversion) for conversion in CONVERSIONS]))
    if options.json:
        print_json(
            {
                plan.name: {"delta": at, "data_dependent": plan.composition.data_dependent}
                | {
                    conversion: None if price.data_dependent else price.epsilon
                    for conversion, price in zip(CONVERSIONS, prices, strict=True)
                }
                for plan, at, prices in rows
            }
        )
        return 0
    from rich.table import Table

    table = Table(title="Built-in plans: epsilon by conversion", title_justify="left")
    for title in ("plan", "delta", *CONVERSIONS, "adjacency"):
        table.add_column(title, justify="left" if title in ("plan", "adjacency") else "right", no_wrap=True)
    for plan, at, prices in rows:
        mark = " *" if plan.composition.data_dependent else ""
        adjacency = str(prices[0].adjacency)
        table.add_row(plan.name + mark, f"{at:g}", *(format_up(price.epsilon) for price in prices), adjacency)
    screen = console()
    screen.print(table)
    screen.print("* depends on private votes: private itself, do not publish it")
    return 0


def _run_show(options: argparse.Namespace) -> int:
    from importlib import resources

    plan = load_plan(options.plan)
    if plan.name not in builtin_plans():
        raise PlanError(f"{plan.name!r} is not a built-in plan; accepted: {', '.join(builtin_plans())}")
    print(resources.files("accountant.plans").joinpath(f"{plan.name}.toml").read_text("utf-8"), end="")
    return 0


# --- laws ----------------------------------------------------------------------------------------------


def _run_verify(options: argparse.Namespace) -> int:
    from rich.progress import Progress

    from accountant.testing import broken_laws, example_events, laws_for

    events = [_import_event(name) for name in options.event] if options.event else example_events()
    results = []
    screen = console()
    errors = console(stderr=True)
    with Progress(console=errors, transient=True, disable=options.json or not errors.is_terminal) as progress:
        task = progress.add_task("laws", total=len(events))
        for event in events:
            progress.update(task, description=short(event)[:60])
            failures = broken_laws(event, max_examples=options.examples)
            results.append((event, laws_for(event), failures))
            progress.advance(task)
    broken = any(failures for _, _, failures in results)
    if options.json:
        print_json(
            {
                "events": [
                    {"event": repr(event), "laws": [law.name for law in laws], "broken": [str(f) for f in failures]}
                    for event, laws, failures in results
                ]
            }
        )
        return int(broken)
    from rich.table import Table

    table = Table(title="Laws", title_justify="left")
    table.add_column("event", overflow="fold")
    table.add_column("laws held", justify="right")
    table.add_column("broken", overflow="fold")
    for event, laws, failures in results:
        table.add_row(
            short(event), f"{len(laws) - len(failures)} of {len(laws)}", "\n".join(str(f) for f in failures) or "none"
        )
    screen.print(table)
    return int(broken)


def _import_event(target: str) -> Event:
    """The event MODULE:NAME, where NAME is an event, or a function or class that makes one without arguments."""
    module, colon, name = target.partition(":")
    if not colon:
        raise PlanError(f"--event {target}: accepted: MODULE:NAME")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
        event = found if isinstance(found, Event) else found()
    except Exception as error:  # the user's own module may fail in any way
        raise PlanError(f"--event {target}: {type(error).__name__}: {error}") from None
    if not isinstance(event, Event):
        raise PlanError(f"--event {target}: is {event!r}; accepted: an event, or a function that makes one")
    return event
