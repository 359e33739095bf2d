"""The `accountant` command and its subcommands."""

from accountant.cli.command import main

__all__ = ["main"]
