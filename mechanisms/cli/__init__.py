"""The `mechanisms` command and its subcommands."""

from mechanisms.cli.command import main

__all__ = ["main"]
