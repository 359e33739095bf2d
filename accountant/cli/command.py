"""Command line: ``accountant epsilon PLAN.toml`` and the other subcommands.

Exit status 0 on success, 1 if ``verify`` finds a broken law or ``check-sampler`` another sampler, 2 on bad input.
"""

from __future__ import annotations

from collections.abc import Sequence

from accountant.cli.calibrate import add_calibrate
from accountant.cli.compare import add_compare
from accountant.cli.completion import add_completion
from accountant.cli.doctor import add_doctor
from accountant.cli.interop import add_interop
from accountant.cli.laws import add_laws
from accountant.cli.listings import add_listings
from accountant.cli.one_shot import add_one_shot
from accountant.cli.plot import add_plot
from accountant.cli.pricing import add_pricing
from accountant.cli.report import add_report
from accountant.cli.risk import add_risk
from accountant.cli.samplers import add_samplers
from accountant.cli.statement import add_statement
from accountant.cli.sweep import add_sweep
from accountant.terminal import Parser, run_command

__all__ = ["main", "make_parser"]

COMMANDS = (
    add_pricing,
    add_calibrate,
    add_one_shot,
    add_compare,
    add_statement,
    add_plot,
    add_sweep,
    add_risk,
    add_report,
    add_interop,
    add_listings,
    add_laws,
    add_samplers,
    add_doctor,
    add_completion,
)
"""What adds the subcommands, in the order in which they are listed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    lost = "nothing was written; the same command begins anew"
    return run_command("accountant", make_parser(), arguments, interrupted=lost)


def make_parser() -> Parser:
    """The parser of all commands; the documentation's reference of commands is made of it."""
    from accountant import __version__

    parser = Parser(prog="accountant", description="Privacy costs of planned experiments.")
    parser.add_argument("--version", action="version", version=f"accountant {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser
