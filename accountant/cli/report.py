"""Command line: ``accountant report PLAN.toml -o report.html``."""

from __future__ import annotations

import argparse
from typing import Any

from accountant.files import check_output
from accountant.plan import load_plan
from accountant.price import ROUTES
from accountant.renyi.conversion import CONVERSIONS
from accountant.terminal import delta_of, number

__all__ = ["add_report"]


def add_report(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Write a page about what a plan costs and why: one HTML file with sliders, which needs no network."
    parser = commands.add_parser("report", help="Write a page about what a plan costs.", description=text)
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add("plan", metavar="PLAN", help="a TOML file, or the name of a built-in plan")
    add("-o", "--out", required=True, metavar="FILE", help="a file ending in .html")
    add("--delta", type=number, help="instead of the plan's delta")
    add("--method", default="renyi", choices=ROUTES, help="route to the price at the top (default renyi)")
    add("--tolerance", type=number, default=0.01, help="width of tight intervals (default 0.01)")
    add("--conversion", default="improved", choices=CONVERSIONS, help="Rényi to epsilon (default improved)")


def _run(options: argparse.Namespace) -> int:
    from accountant.report.html import report, write_page

    target = check_output(options.out, (".html",))
    plan = load_plan(options.plan)
    page = report(
        plan,
        delta_of(plan, options.delta),
        method=options.method,
        conversion=options.conversion,
        tolerance=options.tolerance,
    )
    write_page(page, target)
    print(f"wrote {target}")
    return 0
