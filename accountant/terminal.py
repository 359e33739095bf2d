"""What the command lines share: a parser with one-line messages, exit statuses, tables and JSON."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import AccountantError, EventError, PlanError, caution_of_delta
from accountant.events.event import Event
from accountant.interruption import begin_command
from accountant.plan import Plan, parse_float
from accountant.processes import Terminated
from accountant.tables import Column, Table, add_forms, console, escape_latex, print_json, write_table
from accountant.work import show_work

__all__ = [
    "Column",
    "Parser",
    "Table",
    "add_forms",
    "caution_of_delta",
    "console",
    "delta_of",
    "escape_latex",
    "nonblank",
    "number",
    "number_range",
    "print_json",
    "run_command",
    "short",
    "show_work",
    "space_evenly",
    "warn_of_delta",
    "whole",
    "write_table",
]


class Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line; what is given and blank is never taken for not given."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", None, nonblank)

    def add_subparsers(self, **options: Any) -> Any:
        """As in the base class; the chosen command's parser reads the rest, and names the option in its messages."""
        commands = super().add_subparsers(**options)
        commands.type = str
        return commands

    def error(self, message: str) -> NoReturn:
        raise PlanError(f"{message}; see '{self.prog} --help'")


def run_command(name: str, parser: Parser, arguments: Sequence[str] | None, *, interrupted: str = "") -> int:
    """Parse, and call the chosen command's `run`.

    Returns its exit status, also where its reader leaves before the end (then `options.status`, of what was found); 2
    after bad input, or where a file or standard output cannot be read or written, with one line on standard error; 130
    after an interruption, with the message of the KeyboardInterrupt, else `interrupted`, and 143 where SIGTERM was one.
    """
    begin_command()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could follow
        with suppress(ImportError):
            import argcomplete

            argcomplete.autocomplete(parser)
    options = argparse.Namespace(status=0)
    try:
        _check_output_stream()
        parser.parse_args(arguments, options)
        run: Callable[[argparse.Namespace], int] = options.run
        status = run(options)
        sys.stdout.flush()
        return status
    except AccountantError as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except EventError as error:
        print(f"{name}: {' '.join(str(error).split())}; see 'accountant verify MODULE:NAME'", file=sys.stderr)
        return 2
    except BrokenPipeError:
        _drop_output()
        sys.stderr.close()
        return int(options.status)
    except OSError as error:
        place, reason = error.filename or "standard output", error.strerror or str(error)
        print(f"{name}: {place}: {reason}; accepted: a file that can be read or written", file=sys.stderr)
        _drop_output()
        return 2
    except KeyboardInterrupt as error:
        kept, terminated = str(error) or interrupted, isinstance(error, Terminated)
        how = "terminated" if terminated else "interrupted"
        print(f"{name}: {how}" + (f": {kept}" if kept else ""), file=sys.stderr)
        return 143 if terminated else 130


def _check_output_stream() -> None:
    """Let standard output escape what its encoding lacks, as standard error does: what was asked for is not lost."""
    if sys.stdout is None:  # a file that is opened now would be what is written to
        raise PlanError("standard output is closed; accepted: a file or a terminal, such as /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let the interpreter not fail once more at its end, when it writes what is left."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def number(text: str) -> float:
    """A real number, for argparse."""
    try:
        return parse_float(text)
    except PlanError as error:  # argparse replaces the message of a ValueError
        raise argparse.ArgumentTypeError(str(error)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def nonblank(text: str) -> str:
    """Text that is not blank, for argparse: a variable that a script has not set is no choice of a default."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: text that is not blank")
    return text


def whole(text: str) -> int:
    """A positive integer, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def number_range(option: str, text: str) -> list[float]:
    """N values from A to B, written A:B:N."""
    try:
        low, high, count = text.split(":")
        if not 1 <= int(count) <= 100_000:
            raise ValueError
        ends = float(low), float(high)
        if not np.isfinite(ends).all():
            raise ValueError
        points = space_evenly(*ends, int(count))
    except ValueError:
        accepted = "A:B:N, such as 0:4:41, with finite A and B, N in [1, 100000] and B - A finite"
        raise PlanError(f"{option} {text}: accepted: {accepted}") from None
    return points


def space_evenly(low: float, high: float, count: int, *, by_factor: bool = False) -> list[float]:
    """So many values between two finite ones; a ValueError where the ends are too far apart for that."""
    with np.errstate(over="ignore", invalid="ignore"):
        points = (np.geomspace if by_factor else np.linspace)(low, high, count)
    if not np.isfinite(points).all():
        raise ValueError
    found: list[float] = points.tolist()
    return found


def delta_of(plan: Plan, given: float | None) -> float:
    """The given delta, or the plan's; a line on standard error where it is large beside the records that are stated."""
    chosen = plan.delta if given is None else given
    if chosen is None:
        raise PlanError(f"{plan.name}: delta is missing; accepted: a line such as delta = 1e-5 in the plan, or --delta")
    warn_of_delta(plan, chosen)
    return chosen


def warn_of_delta(plan: Plan, delta: float) -> None:
    """A line on standard error where a delta is not below 1 over the records that the plan states."""
    stated = [line.get("records") for line in plan.written.get("release", ())]
    records = max((int(number) for number in stated if isinstance(number, int | float)), default=0)
    if records and delta <= 1 and (caution := caution_of_delta(delta, records)):
        print(f"accountant: warning: {plan.name}: {caution}", file=sys.stderr)


def short(event: Event) -> str:
    """The event as Python code, without the default adjacency."""
    return repr(event).replace(f", adjacency={Adjacency.ADD_REMOVE!r}", "")
