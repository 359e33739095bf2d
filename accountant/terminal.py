"""What command lines share: a parser with one-line complaints, exit statuses, tables and JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import AccountantError, PlanError
from accountant.events.event import Event
from accountant.plan import Plan, parse_float

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Parser",
    "console",
    "delta_of",
    "number",
    "number_range",
    "print_json",
    "run_command",
    "short",
    "whole",
]


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        raise PlanError(f"{message}; see '{self.prog} --help'")


def run_command(name: str, parser: Parser, arguments: Sequence[str] | None) -> int:
    """Run what the parser chose as `run`; its exit status, or 2 with one line on bad input, 130 if interrupted."""
    try:
        options = parser.parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except AccountantError as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130


def number(text: str) -> float:
    """A real number, for argparse."""
    try:
        return parse_float(text)
    except PlanError as error:  # argparse would put words of its own in the place of any ValueError's
        raise argparse.ArgumentTypeError(str(error)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def whole(text: str) -> int:
    """A positive integer, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def number_range(option: str, text: str) -> list[float]:
    """N values from A to B, written A:B:N."""
    try:
        low, high, count = text.split(":")
        points: list[float] = np.linspace(float(low), float(high), int(count)).tolist()
    except ValueError:
        points = []
    if not points or len(points) > 100_000:
        raise PlanError(f"{option} {text}: accepted: A:B:N, such as 0:4:41, with N in [1, 100000]")
    return points


def delta_of(plan: Plan, given: float | None) -> float:
    """The delta that was given, or the plan's own."""
    chosen = plan.delta if given is None else given
    if chosen is None:
        raise PlanError(f"{plan.name}: delta is missing; accepted: a line such as delta = 1e-5 in the plan, or --delta")
    return chosen


def short(event: Event) -> str:
    """The event as one would write it, without the default adjacency."""
    return repr(event).replace(f", adjacency={Adjacency.ADD_REMOVE!r}", "")


def console(*, stderr: bool = False) -> Console:
    """Where tables go; wide enough for them when it is not a terminal."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = max(found.width, 110)
    return found


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""

    def plain(item: Any) -> Any:
        # JSON has no infinity; "inf" is what float() reads back
        if isinstance(item, float) and not math.isfinite(item):
            return str(item)
        if isinstance(item, dict):
            return {key: plain(entry) for key, entry in item.items()}
        if isinstance(item, list | tuple):
            return [plain(entry) for entry in item]
        return item

    print(json.dumps(plain(value), allow_nan=False, indent=2))
