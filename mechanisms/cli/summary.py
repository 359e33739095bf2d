"""What a labelling command says: a summary for programs, a table for people, figures for the operator alone."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.data import LEARNT_CLASSES, Given
from mechanisms.cli.results_file import Output

if TYPE_CHECKING:
    from mechanisms.experiment.labelling import Experiment
    from mechanisms.experiment.outcome import Diagnostics, Outcome
    from mechanisms.experiment.reverse import ReverseExperiment

__all__ = ["columns_of", "print_outcome", "show", "summary_of", "total_of"]

NOT_PRIVATE = "not private: do not publish"


def total_of(output: Output, experiment: Experiment | ReverseExperiment) -> dict[str, Any]:
    """What was released into the file before, and the price of that and the coming run together.

    Raises
    ------
    accountant.AccountantError
        They have no price together: their adjacencies differ, or delta is 0 and a release has no pure guarantee.
    """
    price, method = experiment.guarantee, getattr(experiment.setting, "method", None)
    if output.earlier:
        run = output.composition + experiment.planned
        price = ac.epsilon(run, price.delta, method=method or "auto", tolerance=1e-3)
    return {"earlier": output.earlier, "total": {"epsilon": price.epsilon, "delta": price.delta}}


def columns_of(given: Given, outcome: Outcome) -> dict[str, Any]:
    """What a results file holds of every public point; labels by name where the classes have names."""
    labels, predictions = outcome.labels, outcome.predictions
    columns = {"label": labels, "answered": labels >= 0, "prediction": predictions}
    if given.class_names is not None:
        names = np.array([*given.class_names, ""])  # -1 is the last: no answer
        columns |= {"label": names[labels], "prediction": names[predictions]}
    return columns


def show(
    options: argparse.Namespace,
    experiment: Experiment | ReverseExperiment,
    outcome: Outcome,
    summary: dict[str, Any],
) -> None:
    """The summary, and diagnostics, to the terminal."""
    if options.json:
        ac.terminal.print_json(summary)
    else:
        print_outcome(experiment, outcome, summary)
    if outcome.diagnostics is not None:
        _print_diagnostics(outcome.diagnostics, options.json)


def summary_of(
    options: argparse.Namespace, given: Given, experiment: Experiment | ReverseExperiment, outcome: Outcome
) -> dict[str, Any]:
    """What `--json` and `--out` say: public options, what they fix, and what was paid for. Nothing else."""
    price, test = outcome.guarantee, experiment.test
    setting = asdict(experiment.setting)
    seeded = setting.pop("seed") is not None  # whoever knows the seed knows the noise
    return {
        "mechanism": options.mechanism,
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "method": price.method,
        "conversion": price.conversion,
        "order": price.order,
        "lower": price.lower,
        "queries": outcome.asked,
        "answered": outcome.answered,
        "labelled": int(np.count_nonzero(outcome.labels >= 0)),
        "records": {
            "private": experiment.nominal,
            "public": len(experiment.public),
            "test": None if test is None else len(test),
        },
        "classes": experiment.n_classes,
        "class_names": given.class_names,
        "also_public": _also_public(options, experiment),
        "noise": outcome.noise,
        "planned": [{"event": repr(event), "count": count} for event, count in outcome.planned],
        "spent": [{"event": repr(event), "count": count} for event, count in outcome.spent],
        "releases": ac.composition_to_tables(outcome.planned),
        "setting": setting,
        "seeded": seeded,
        "out": options.out,
    }


def _also_public(options: argparse.Namespace, experiment: Experiment | ReverseExperiment) -> list[str]:
    """What becomes known of private records beside what was paid for."""
    said = [LEARNT_CLASSES] if options.learn_classes else []
    if options.data is not None:
        return ["the number of records is public: --data is cut by it", *said]
    if experiment.guarantee.adjacency is ac.Adjacency.REPLACE:
        return ["the number of records is public", *said]
    return said if options.records is not None else [f"about {experiment.nominal} records (public)", *said]


def print_outcome(experiment: Experiment | ReverseExperiment, outcome: Outcome, summary: dict[str, Any]) -> None:
    """The summary as a table."""
    from rich.table import Table

    sizes = summary["records"]
    table = Table(title=f"{summary['mechanism']} on {experiment.private.name}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_row("records", ", ".join(f"{count} {part}" for part, count in sizes.items() if count is not None))
    if summary["also_public"]:
        table.add_row("also public", "; ".join(summary["also_public"]))
    if outcome.asked:
        table.add_row("answered", f"{outcome.answered} of {outcome.asked} queries")
    table.add_row("noise", f"{outcome.noise:.4g} {_unit(experiment)}")
    table.add_row("fixed before the run", _listed(outcome.planned))
    table.add_row("spent", _listed(outcome.spent))
    table.add_row("guarantee", str(outcome.guarantee))
    if summary["earlier"]:
        prices = [f"({each['epsilon']:.6g}, {each['delta']:g})" for each in summary["earlier"]]
        table.add_row("released before", ", ".join(prices))
        total = summary["total"]
        table.add_row("all together", f"({total['epsilon']:.6g}, {total['delta']:g})-DP")
    if summary["out"]:
        table.add_row("results", summary["out"])
    ac.terminal.console().print(table)


def _print_diagnostics(found: Diagnostics, quiet: bool) -> None:
    """What nobody paid for; beside a JSON object on stderr."""
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


def _unit(experiment: Experiment | ReverseExperiment) -> str:
    if experiment.setting.mechanism == "noisy-sgd":
        return "times the clip"
    local = getattr(experiment.setting, "model", "central") != "central"
    return "votes" if not local or getattr(experiment.setting, "randomizer", "") == "shares" else "epsilon of a report"


def _listed(run: ac.Composition) -> str:
    return " + ".join(f"{count} {ac.terminal.short(event)}" for event, count in run) or "nothing"
