"""The `accountant` command and its subcommands."""

from accountant.cli.command import main, make_parser

__all__ = ["main", "make_parser"]
