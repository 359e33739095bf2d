"""Command line: ``accountant report PLAN.toml -o report.html``."""

from __future__ import annotations

import argparse
from typing import Any

from accountant.cli.arguments import add_plan, add_route, read_plan, route
from accountant.files import check_output
from accountant.terminal import delta_of, number, show_work

__all__ = ["add_report"]


def add_report(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Write a page about what a plan costs and why: one HTML file with sliders, which needs no network."
    parser = commands.add_parser("report", help="Write a page about what a plan costs.", description=text)
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add_plan(parser)
    add("-o", "--out", required=True, metavar="FILE", help="a file ending in .html")
    add("--delta", type=number, help="instead of the plan's delta")
    add_route(parser)


def _run(options: argparse.Namespace) -> int:
    from accountant.report.html import report, write_page

    target = check_output(options.out, (".html",))
    plan = read_plan(options)
    with show_work("pricing the page, its plots and its sliders"):
        page = report(
            plan,
            delta_of(plan, options.delta),
            **route(options),
        )
    write_page(page, target)
    print(f"wrote {target}")
    return 0
