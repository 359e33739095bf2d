"""What the commands print: a summary as JSON, the same as a table, and diagnostics for the operator alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.data import LEARNT_CLASSES, LEARNT_NAMES, CommandData
from mechanisms.cli.results_file import ResultsFile

if TYPE_CHECKING:
    from rich.table import Table

    from mechanisms.experiment.labelling import Experiment
    from mechanisms.experiment.outcome import Diagnostics, Outcome
    from mechanisms.experiment.reverse import ReverseExperiment

__all__ = [
    "NOT_PRIVATE",
    "list_also_public",
    "make_columns",
    "make_table",
    "price_total",
    "print_outcome",
    "show",
    "show_plan",
    "show_prices",
    "summarise",
    "summarise_plan",
]

NOT_PRIVATE = "not private: do not publish"


def price_total(results: ResultsFile, experiment: Experiment | ReverseExperiment) -> dict[str, Any]:
    """The earlier releases of the results file, and the price of them and the coming run together.

    Raises
    ------
    accountant.AccountantError
        They have no price together: their adjacencies differ, or delta is 0 and a release has no pure guarantee.
    """
    price, method = experiment.guarantee, getattr(experiment.setting, "method", None)
    if results.earlier:
        run = results.composition + experiment.planned
        price = ac.epsilon(run, price.delta, method=method or "auto", tolerance=1e-3)
    return {"earlier": results.earlier, "total": {"epsilon": price.epsilon, "delta": price.delta}}


def make_columns(data: CommandData, outcome: Outcome) -> dict[str, Any]:
    """The columns of a results file, one row for each public point; labels are names if the classes have names.

    Label sets have a column of zeros and ones for each label, and -1 where a point was not answered.
    """
    labels, predictions = outcome.labels, outcome.predictions
    if labels.ndim == 2:
        names = data.class_names or tuple(map(str, range(labels.shape[1])))
        sets: dict[str, Any] = {"id": data.query_ids, "answered": labels[:, 0] >= 0}
        for what, table in (("label", labels), ("prediction", predictions)):
            sets |= {f"{what}_{name}": table[:, number] for number, name in enumerate(names)}
        return sets
    named = {"label": data.name_labels(labels), "answered": labels >= 0, "prediction": data.name_labels(predictions)}
    return {"id": data.query_ids, **named}


def show(
    options: argparse.Namespace,
    experiment: Experiment | ReverseExperiment,
    outcome: Outcome,
    summary: dict[str, Any],
) -> None:
    """Print the summary, and the diagnostics if there are any."""
    if options.json:
        ac.terminal.print_json(summary)
    else:
        print_outcome(experiment, outcome, summary)
    if outcome.diagnostics is not None:
        _print_diagnostics(outcome.diagnostics, options.json)


def summarise(
    options: argparse.Namespace, data: CommandData, experiment: Experiment | ReverseExperiment, outcome: Outcome
) -> dict[str, Any]:
    """The summary for `--json` and `--out`: public options, what follows from them, and what was paid for; no more."""
    found = {
        "queries": outcome.asked,
        "answered": outcome.answered,
        "labelled": int(np.count_nonzero((outcome.labels >= 0).reshape(len(outcome.labels), -1)[:, 0])),
        "spent": _list_counts(outcome.spent),
        "dry_run": False,
    }
    return summarise_plan(options, data, experiment) | found


def summarise_plan(
    options: argparse.Namespace, data: CommandData, experiment: Experiment | ReverseExperiment
) -> dict[str, Any]:
    """The part of `summarise` that is fixed before anything is drawn: all of a ``--dry-run``."""
    price, test = experiment.guarantee, experiment.test
    replace = price.adjacency is ac.Adjacency.REPLACE
    setting = asdict(experiment.setting)
    seeded = setting.pop("seed") is not None  # the seed would reveal the noise
    return {
        "mechanism": options.mechanism,
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "method": price.method,
        "conversion": price.conversion,
        "order": price.order,
        "lower": price.lower,
        "queries": experiment.asked,
        "answered": 0,
        "labelled": 0,
        "records": {
            "private": experiment.nominal,
            "public": len(experiment.public),
            "test": None if test is None else len(test),
        },
        "classes": experiment.n_classes,
        "class_names": data.class_names,
        "also_public": list_also_public(options, experiment.nominal, replace, data.class_names),
        "noise": experiment.noise,
        "planned": _list_counts(experiment.planned),
        "spent": [],
        "releases": ac.composition_to_tables(experiment.planned),
        "setting": setting,
        "seeded": seeded,
        "dry_run": True,
        "out": options.out,
    }


def _list_counts(run: ac.Composition) -> list[dict[str, Any]]:
    return [{"event": repr(event), "count": count} for event, count in run]


def list_also_public(
    options: argparse.Namespace, nominal: int, replace: bool = False, class_names: Sequence[str] | None = None
) -> list[str]:
    """What becomes public about the private records without being paid for.

    Parameters
    ----------
    options : argparse.Namespace
    nominal : int
        The public number of records, from which defaults follow.
    replace : bool
        Whether the guarantee is for REPLACE, under which the number of records is public.
    class_names : sequence of str, optional
        Names of the classes, if they have names.
    """
    said = [LEARNT_CLASSES if class_names is None else LEARNT_NAMES] if options.learn_classes else []
    if options.data is not None:
        return ["the number of records is public: --data is cut by it", *said]
    if replace:
        return ["the number of records is public", *said]
    return said if options.records is not None else [f"about {nominal} records (public)", *said]


def print_outcome(experiment: Experiment | ReverseExperiment, outcome: Outcome, summary: dict[str, Any]) -> None:
    """Print the summary as a table."""
    table = _begin_table(experiment, summary)
    if outcome.asked:
        table.add_row("answered", f"{outcome.answered} of {outcome.asked} queries")
    table.add_row("noise", f"{outcome.noise:.4g} {_name_unit(experiment)}")
    table.add_row("fixed before the run", _list_events(outcome.planned))
    table.add_row("spent", _list_events(outcome.spent))
    table.add_row("guarantee", str(outcome.guarantee))
    show_prices(table, summary)
    ac.terminal.console().print(table)


def show_plan(options: argparse.Namespace, experiment: Experiment | ReverseExperiment, summary: dict[str, Any]) -> int:
    """Print what a run would release and cost, after ``--dry-run``; returns the exit status."""
    if options.json:
        ac.terminal.print_json(summary)
        return 0
    table = _begin_table(experiment, summary)
    if experiment.asked:
        rounds = experiment.setting.rounds
        each = f", {experiment.asked // rounds} in each of {rounds} rounds" if rounds > 1 else ""
        table.add_row("would ask", f"{experiment.asked} queries{each}{_limit_answers(experiment)}")
    if votes := experiment.describe_votes():
        table.add_row("votes of", votes)
    table.add_row("noise", f"{experiment.noise:.4g} {_name_unit(experiment)}")
    table.add_row("would spend at most", _list_events(experiment.planned))
    table.add_row("guarantee", str(experiment.guarantee))
    show_prices(table, summary | {"out": None})
    table.add_row("released", "nothing: this was a dry run")
    ac.terminal.console().print(table)
    return 0


def _limit_answers(experiment: Experiment | ReverseExperiment) -> str:
    """How many queries of a round are answered at most, where that is fewer than are asked."""
    most, rounds = getattr(experiment.setting, "max_labels", None), experiment.setting.rounds
    if most is None or most >= experiment.asked // rounds:
        return ""
    return f", of which at most {most} are answered" + (" in each round" if rounds > 1 else "")


def _begin_table(experiment: Experiment | ReverseExperiment, summary: dict[str, Any]) -> Table:
    """The rows about the data."""
    table = make_table(f"{summary['mechanism']} on {experiment.private.name}")
    sizes = summary["records"]
    table.add_row("records", ", ".join(f"{count} {part}" for part, count in sizes.items() if count is not None))
    if summary["also_public"]:
        table.add_row("also public", "; ".join(summary["also_public"]))
    return table


def make_table(title: str) -> Table:
    """An empty table of two columns."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    return table


def show_prices(table: Table, summary: dict[str, Any]) -> None:
    """Add rows with the prices of earlier releases into the same file, and with the file."""
    if summary["earlier"]:
        prices = [f"({ac.format_up(each['epsilon'])}, {ac.format_up(each['delta'])})" for each in summary["earlier"]]
        table.add_row("released before", ", ".join(prices))
        total = summary["total"]
        table.add_row("all together", f"({ac.format_up(total['epsilon'])}, {ac.format_up(total['delta'])})-DP")
    if summary["out"]:
        table.add_row("results", summary["out"])


def _print_diagnostics(found: Diagnostics, quiet: bool) -> None:
    """Print accuracies that were not paid for; on stderr if stdout holds a JSON object."""
    from rich.table import Table

    table = Table(show_header=False)
    for name, value in asdict(found).items():
        if name == "bytes_per_client":
            shown = None if value is None else f"{value:.0f}"
        else:
            shown = "not known" if value is None else f"{100 * value:.1f} %"
        if shown is not None and (value is not None or name != "noiseless_accuracy"):
            table.add_row(name.replace("_", " ").replace("nonprivate", "non-private"), shown)
    screen = ac.terminal.console(stderr=quiet)
    screen.print(NOT_PRIVATE)
    screen.print(table)


def _name_unit(experiment: Experiment | ReverseExperiment) -> str:
    if experiment.setting.mechanism == "noisy-sgd":
        return "times the clip"
    local = getattr(experiment.setting, "model", "central") != "central"
    return "votes" if not local or getattr(experiment.setting, "randomizer", "") == "shares" else "epsilon of a report"


def _list_events(run: ac.Composition) -> str:
    return " + ".join(f"{count} {ac.terminal.short(event)}" for event, count in run) or "nothing"
