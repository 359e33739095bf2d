"""``accountant verify``: events against the laws of privacy accounting."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from accountant.errors import PlanError
from accountant.events.event import Event
from accountant.tables import Column, Table, add_forms, console, write_table
from accountant.terminal import short, whole

__all__ = ["add_laws"]


def add_laws(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Check events against the laws of privacy accounting."
    parser = commands.add_parser("verify", help=text, description=text)
    parser.set_defaults(run=_run)
    parser.add_argument("events", nargs="*", metavar="MODULE:NAME", help="events of your own; default: all built in")
    parser.add_argument("--event", action="append", metavar="MODULE:NAME", help="the same (repeatable)")
    parser.add_argument("--examples", type=whole, default=50, help="random inputs per law (default 50)")
    add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    from rich.progress import Progress

    from accountant.testing import broken_laws, example_events, laws_for

    named = [(f"event {name!r}", name) for name in options.events]
    named += [(f"--event {name}", name) for name in options.event or ()]
    events = [event for each in named for event in _import_events(*each)] if named else example_events()
    results = []
    errors = console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("laws", total=len(events))
        for event in events:
            progress.update(task, description=short(event)[:60])
            failures = broken_laws(event, max_examples=options.examples)
            results.append((event, laws_for(event), failures))
            progress.advance(task)
    rows = [
        (short(event), f"{len(laws) - len(failures)} of {len(laws)}", "\n".join(map(str, failures)) or "none")
        for event, laws, failures in results
    ]
    record = {
        "events": [
            {"event": repr(event), "laws": [law.name for law in laws], "broken": [str(f) for f in failures]}
            for event, laws, failures in results
        ]
    }
    columns = [Column("event"), Column("laws held", "count"), Column("broken")]
    options.status = int(any(failures for _, _, failures in results))
    write_table(Table("Laws", columns, rows), options.form, record)
    return int(options.status)


def _import_events(given: str, target: str) -> Sequence[Event]:
    """What MODULE:NAME names: an event, examples of a class, or what a class or function makes without arguments.

    `given` is how it was named, for messages.
    """
    module, colon, name = target.partition(":")
    if not colon:
        raise PlanError(f"{given}; accepted: MODULE:NAME, such as accountant:Gaussian")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
        if isinstance(found, Event):
            return (found,)
        examples = tuple(found.examples()) if isinstance(found, type) and issubclass(found, Event) else ()
        found = examples or (found(),)
    except Exception as error:  # the user's own module may fail in any way
        hint = "; accepted: an event, a class with `examples`, or a function that makes an event"
        raise PlanError(
            f"{given}: {type(error).__name__}: {error}{hint if isinstance(error, TypeError) else ''}"
        ) from None
    for event in found:
        if not isinstance(event, Event):
            raise PlanError(f"{given}: is {event!r}; accepted: an event, or a function that makes one")
    return found
