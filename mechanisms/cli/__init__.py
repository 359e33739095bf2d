"""The `mechanisms` command and its subcommands."""

from mechanisms.cli.command import main, make_parser

__all__ = ["main", "make_parser"]
