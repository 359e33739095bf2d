"""``accountant report PLAN -o report.html``, and ``accountant report A B -o both.html``."""

from __future__ import annotations

import argparse
from typing import Any

from accountant.cli.arguments import add_plan, add_route, read_plan, read_source, route
from accountant.cli.compare import find_differences, judge
from accountant.errors import PlanError
from accountant.files import check_output
from accountant.terminal import delta_of, number, show_work

__all__ = ["add_report"]


def add_report(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = (
        "Write a page about what a plan costs and why: one HTML file with sliders, which needs no network. "
        "Of several plans: a page that compares them."
    )
    parser = commands.add_parser("report", help="Write a page about what a plan costs.", description=text)
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add_plan(parser)
    add("others", nargs="*", metavar="PLAN", help="further plans, to compare; --set changes all of them")
    add("-o", "--out", required=True, metavar="FILE", help="a file ending in .html")
    add("--delta", type=number, help="instead of the plan's delta (of several: the smallest of the plans' deltas)")
    add_route(parser)


def _run(options: argparse.Namespace) -> int:
    from accountant.report.html import report, write_page

    target = check_output(options.out, (".html",), keep=[options.plan, *options.others])
    if options.others:
        page = _compare(options)
    else:
        plan = read_plan(options)
        delta = delta_of(plan, options.delta)
        with show_work(f"{plan.name}: pricing and drawing"):
            page = report(plan, delta, **route(options))
    write_page(page, target)
    print(f"wrote {target}")
    return 0


def _compare(options: argparse.Namespace) -> str:
    from accountant.report.comparison import compare_plans

    sources = [options.plan, *options.others]
    if sources.count("-") > 1:
        raise PlanError("- twice; accepted: one plan from standard input")
    plans = [read_source(source, options.changes) for source in sources]
    delta = min(delta_of(plan, options.delta) for plan in plans)
    with show_work(f"{len(plans)} plans: pricing and drawing"):
        return compare_plans(
            plans,
            delta,
            judge=lambda titled, prices: (find_differences(titled), judge(titled, prices, options.delta)),
            **route(options),
        )
