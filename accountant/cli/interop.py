"""``accountant import`` and ``registry``: states of other accountants as plans, plans as records of the registry."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

from accountant.cli.arguments import add_route, read_plan, route
from accountant.errors import DataDependentError, PlanError
from accountant.files import check_output, write_text
from accountant.guarantee import format_up
from accountant.price import epsilon
from accountant.tables import Column, Table, add_forms, write_table
from accountant.terminal import delta_of, number, show_work

__all__ = ["add_interop"]

STATED = {
    "name": "of what is released (default: the plan's)",
    "curator": "who releases it",
    "sector": "what the curator is: Government, Industry (default) or Nonprofit",
    "use": "what it is meant for",
    "description": "of what is released",
    "region": "that the data describe",
    "unit": "what one record stands for, such as person (default record)",
    "model": "who holds the data: Central (default), Local, Shuffle or Federated",
    "date": "of its publication, YYYY-MM-DD (default today)",
}
CHOICES = {
    "sector": ("Government", "Industry", "Nonprofit"),
    "model": ("Central", "Local", "Shuffle", "Federated"),
}
OF_PLANS = ("output", "method", "conversion", *STATED)
"""Options that have no effect on a record that is priced."""

HEADER = (
    "# A draft: state what is 'to be stated by the curator', and check what a plan does not say: types and sectors.\n"
)


def add_interop(commands: Any) -> None:
    """Add the subcommands to a parser's commands."""
    text = "Write the plan that the saved state of an Opacus or Flower accountant has spent."
    parser = commands.add_parser("import", help=text, description=text)
    parser.set_defaults(run=_run_import)
    parser.add_argument(
        "state", metavar="STATE", help="state.json, or a checkpoint of torch.save; nothing in it is run"
    )
    parser.add_argument("--delta", type=number, help="delta of the plan")
    _add_file(parser, "PLAN.toml")
    text = "Write a plan as a draft record of the registry of deployments; or price the rho of a record."
    parser = commands.add_parser("registry", help=text, description=text)
    parser.set_defaults(run=_run_registry)
    parser.add_argument("plan", metavar="PLAN", help="a plan, built in or in TOML; or a record in YAML, to price it")
    parser.add_argument("--delta", type=number, help="instead of the plan's or the record's delta")
    for name, meaning in STATED.items():
        choices = CHOICES.get(name)
        parser.add_argument(f"--{name}", choices=choices, metavar=None if choices else "TEXT", help=meaning)
    _add_file(parser, "RECORD.yaml")
    add_route(parser)
    parser.set_defaults(changes=[])
    add_forms(parser)


def _add_file(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("-o", "--output", metavar=name, help="a file to write; without it, standard output")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def _run_import(options: argparse.Namespace) -> int:
    from accountant.interop.histories import import_state

    _check_file(options, options.state, ".toml")
    _write(import_state(options.state, options.delta).to_toml(), options)
    return 0


def _run_registry(options: argparse.Namespace) -> int:
    from accountant.interop.deployments import import_yaml, make_record

    yaml = import_yaml()
    if Path(options.plan).suffix in (".yaml", ".yml"):
        _refuse(options, [name for name in OF_PLANS if getattr(options, name) is not None], "a plan")
        return _reprice(yaml, options)
    _refuse(options, [options.form] if options.form != "table" else [], "a record in YAML, to price it")
    _check_file(options, options.plan, ".yaml", ".yml")
    plan = read_plan(options)
    if plan.composition.data_dependent:
        raise DataDependentError(
            "this plan's cost depends on private data, a record is published; accepted: other plans"
        )
    if options.date is not None:
        _check_date(options.date)
    known = {name: getattr(options, name) for name in STATED if getattr(options, name) is not None}
    delta = delta_of(plan, options.delta)
    with show_work("pricing"):
        price = epsilon(plan.composition, delta, **route(options))
    record = make_record(plan, price, known)
    _write(HEADER + yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=110), options)
    return 0


def _refuse(options: argparse.Namespace, given: list[str], accepted: str) -> None:
    """Refuse options that would have no effect."""
    if given:
        raise PlanError(f"--{given[0]} has no effect on {options.plan}; accepted with --{given[0]}: {accepted}")


def _check_date(text: str) -> None:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        raise PlanError(f"--date {text}: accepted: YYYY-MM-DD") from None


def _reprice(yaml: Any, options: argparse.Namespace) -> int:
    from accountant.interop.deployments import reprice

    try:
        record = yaml.safe_load(Path(options.plan).read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PlanError(f"cannot read {options.plan}: {' '.join(str(error).split())}; accepted: YAML") from None
    found = reprice(record, options.delta)
    if not found:
        raise PlanError(f"{options.plan} states no rho; accepted: a record with privacy_parameters.rho")
    (one,) = found
    table = Table(
        title=one.name,
        columns=[Column("rho", "exact"), Column("delta", "up"), Column("stated", "number"), Column("epsilon", "up")],
        rows=[[one.rho, one.delta, one.stated, one.price.epsilon]],
        heading=f"epsilon = {format_up(one.price.epsilon)} at delta = {format_up(one.delta)}",
        notes=["Of all that is rho-zCDP; the mechanism itself may cost less."],
    )
    record = {**one.price.as_dict(), "name": one.name, "rho": one.rho, "stated": one.stated}
    write_table(table, options.form, record if options.form == "json" else None)
    return 0


def _check_file(options: argparse.Namespace, read: str, *endings: str) -> None:
    if options.output is None:
        return
    check_output(options.output, endings, keep=[read], name="--output", refuse=PlanError)
    if Path(options.output).exists() and not options.force:
        raise PlanError(f"--output {options.output}: exists; accepted: another file, or --force to replace it")


def _write(text: str, options: argparse.Namespace) -> None:
    if options.output is None:
        print(text, end="")
    else:
        write_text(options.output, text, replace=options.force, name="--output", refuse=PlanError)
        print(f"wrote {options.output}")
