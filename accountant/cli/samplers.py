"""``accountant check-sampler``: whether the batches of a run were drawn as its plan says."""

from __future__ import annotations

import argparse
from typing import Any

from accountant.samplers import check_sampler, read_stream
from accountant.tables import Column, Table, add_forms, write_table
from accountant.terminal import number, whole

__all__ = ["add_samplers"]


def add_samplers(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Test whether the batches of a run were drawn as declared."
    parser = commands.add_parser("check-sampler", help=text, description=text)
    parser.set_defaults(run=_run)
    parser.add_argument("stream", metavar="STREAM", help="indices of the records in every step, one step a line; or -")
    parser.add_argument(
        "--declared",
        required=True,
        metavar="SAMPLER",
        help="poisson:RATE, poisson:@FILE (one rate for each record), "
        "fixed:BATCH, with-replacement:BATCH, shuffled:BATCH, allocation:STEPS[:SELECTED]",
    )
    parser.add_argument("--records", type=whole, help="number of records; default: one more than the largest index")
    parser.add_argument(
        "--false-alarm-rate",
        type=number,
        default=1e-3,
        help="chance of a false alarm in all tests (default 0.001)",
    )
    add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    found = check_sampler(
        read_stream(options.stream),
        options.declared,
        records=options.records,
        false_alarm_rate=options.false_alarm_rate,
    )
    rows = [
        (test.name, test.found, test.expected, test.adjusted, "ALARM" if test in found.alarms else "")
        for test in found.tests
    ]
    columns = [
        Column("count"),
        Column("found", "count"),
        Column("expected", "number"),
        Column("chance", "number"),
        Column("", wrap=False),
    ]
    size = f"{found.steps} steps, {found.records} records" + ("" if found.records_counted else " (the largest index)")
    if found.consistent:
        verdict = f"Nothing that {found.declared} would hardly ever do. This is no proof that it ran."
    else:
        verdict = f"This is not {found.declared}: its price is not the price of this run."
    table = Table("Sampler", columns, rows, heading=f"{found.declared}: {size}", notes=(verdict,))
    options.status = int(not found.consistent)
    write_table(table, options.form, found.as_dict())
    return int(options.status)
