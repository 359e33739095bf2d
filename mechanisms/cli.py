"""Command line: ``mechanisms label private-knn --data digits --epsilon 2 --delta 1e-4``, and ``mechanisms predict``.

Exit status 0 on success, 2 on bad input, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli_data import (
    add_data,
    add_output,
    parts,
    progress_bar,
    refuse_finished,
    seed,
    warn_of_seed,
    write_results,
)
from mechanisms.predict_cli import add_predict
from mechanisms.reverse_cli import add_reverse_options, run_reverse

if TYPE_CHECKING:
    from mechanisms.experiment import Experiment, Outcome
    from mechanisms.journal import Journal
    from mechanisms.reverse_experiment import ReverseExperiment

__all__ = ["main", "print_outcome", "summary_of"]

REVERSE = "noisy counts of records at the queries nearest to them, over a federation of clients"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return int(ac.terminal.run_command("mechanisms", _parser(), arguments))


def _parser() -> Any:
    terminal = ac.terminal
    parser = terminal.Parser(prog="mechanisms", description="Private labelling of public data, and private prediction.")
    parser.add_argument("--version", action="version", version=f"mechanisms {ac.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=terminal.Parser, metavar="COMMAND")
    text = "Label public points by private records, train a student on the labels, and say what it cost."
    label = commands.add_parser("label", help=text, description=text)
    kinds = label.add_subparsers(dest="mechanism", required=True, parser_class=terminal.Parser, metavar="MECHANISM")
    for name, help_text in (
        ("private-knn", "noisy votes of nearest neighbours within Poisson samples"),
        ("gnmax", "PATE: noisy votes of teachers on shards, Gaussian noise"),
        ("lnmax", "PATE with Laplace noise"),
        ("noisy-sgd", "softmax regression by noisy gradients; labels all public points"),
    ):
        added = kinds.add_parser(name, help=help_text, description=f"Label by {help_text}.")
        added.set_defaults(run=_run_label)
        _add_common(added)
        _add_specific(added, name)
    added = kinds.add_parser("reverse-knn", help=REVERSE, description=f"Label by {REVERSE}.")
    added.set_defaults(run=run_reverse)
    _add_target(added)
    add_reverse_options(added)
    add_predict(commands)
    return parser


def _add_target(parser: argparse.ArgumentParser, out: str = "") -> None:
    number = ac.terminal.number
    add = parser.add_argument
    add("--epsilon", type=number, required=True, help="the guarantee, for everything that is released")
    add("--delta", type=number, required=True)
    add_data(parser)
    add("--seed", type=seed, help="reproducible; without it exact noise from the system, as real releases need")
    add_output(parser, f"results as .npz or .parquet{out}")


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_target(parser, "; an interrupted run goes on when started again")
    add = parser.add_argument
    add("--method", choices=("renyi", "tight", "auto"), help="route to the price (default auto; renyi with screening)")
    add("--conversion", default="improved", choices=("improved", "classic", "optimal"), help="Rényi to epsilon")


def _add_specific(parser: argparse.ArgumentParser, name: str) -> None:
    number, whole = ac.terminal.number, ac.terminal.whole
    add = parser.add_argument
    if name in ("private-knn", "noisy-sgd"):
        add("--sampling-rate", type=number, default=0.5, help="of a sample (default 0.5); batches are a tenth of it")
    if name == "noisy-sgd":
        add("--steps", type=whole, default=500, help="gradient steps (default 500)")
        return
    if name == "private-knn":
        add("--neighbors", type=whole, help="k (default: a class's share of a sample)")
    else:
        add("--teachers", type=whole, help="shards (default: one for every eight records)")
        add("--teacher", default="logistic", choices=("logistic", "nearest"), help="regression, or the nearest record")
    add("--queries", type=whole, help="points to ask about in a round (default: what the budget can label well)")
    add("--rounds", type=whole, default=1, help="the student's last hidden layer is the next round's features")
    add("--max-labels", type=whole, help="most answers in a round (default: all queries)")
    add("--screening-ratio", type=number, help="screen queries, at so many times the noise of a vote (papers: 3)")
    add("--threshold", type=number, help="votes that pass screening (default 0.6 of the neighbours or teachers)")
    add("--features", default="raw", choices=("raw", "standardised", "hog"), help="of the first round (default raw)")
    add("--student", default="network", choices=("network", "conv"), help="conv: PyTorch with VAT, for images")


# --- running -------------------------------------------------------------------------------------------


def _run_label(options: argparse.Namespace) -> int:
    from dataclasses import fields

    from mechanisms.experiment import Experiment, Setting

    refuse_finished(options)
    given = parts(options)
    named = vars(options)
    setting = Setting(**{field.name: named[field.name] for field in fields(Setting) if field.name in named})
    experiment = Experiment(setting, given.private, given.public, given.test, given.n_classes)
    warn_of_seed(options)
    with (
        open_journal(options.out) as journal,
        progress_bar("labelling", experiment.queries * setting.rounds, options.json) as progress,
    ):
        outcome = experiment.run(journal, progress)
        summary = summary_of(options, experiment, outcome)
        if options.out:
            columns = {"label": outcome.labels, "answered": outcome.labels >= 0, "prediction": outcome.predictions}
            write_results(Path(options.out), columns, summary)
    if options.out:
        remove_journal(options.out)
    if options.json:
        ac.terminal.print_json(summary)
    else:
        print_outcome(experiment, outcome, summary)
    return 0


@contextmanager
def open_journal(out: str | None) -> Iterator[Journal | None]:
    """Beside the results that will be written, so that an interrupted run goes on."""
    from mechanisms.journal import Journal

    if not out:
        yield None
        return
    path = Path(f"{out}.journal")
    if path.exists():
        print(f"mechanisms: going on with the interrupted run in {path}", file=sys.stderr)
    with Journal(path) as journal:
        yield journal


def remove_journal(out: str) -> None:
    """Once the results are there."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.remove(f"{out}.journal{suffix}")


# --- results -------------------------------------------------------------------------------------------


def summary_of(
    options: argparse.Namespace, experiment: Experiment | ReverseExperiment, outcome: Outcome
) -> dict[str, Any]:
    """What `--json` and `--out` say."""
    price, test = outcome.guarantee, experiment.test
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
        "label_accuracy": outcome.label_accuracy,
        "student_accuracy": outcome.student_accuracy,
        "nonprivate_accuracy": outcome.nonprivate_accuracy,
        "records": {
            "private": len(experiment.private),
            "public": len(experiment.public),
            "test": None if test is None else len(test),
        },
        "classes": experiment.n_classes,
        "noise": outcome.noise,
        "planned": [{"event": repr(event), "count": count} for event, count in outcome.planned],
        "spent": [{"event": repr(event), "count": count} for event, count in outcome.spent],
        "setting": asdict(experiment.setting),
        "out": options.out,
    }


def print_outcome(experiment: Experiment | ReverseExperiment, outcome: Outcome, summary: dict[str, Any]) -> None:
    """The summary as a table."""
    from rich.table import Table

    def share(value: float | None) -> str:
        return "not known" if value is None else f"{100 * value:.1f} %"

    sizes = summary["records"]
    table = Table(title=f"{summary['mechanism']} on {experiment.private.name}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_row("records", ", ".join(f"{count} {part}" for part, count in sizes.items() if count is not None))
    if outcome.asked:
        table.add_row("answered", f"{outcome.answered} of {outcome.asked} queries")
        table.add_row("label accuracy", share(outcome.label_accuracy))
    table.add_row("student accuracy", share(outcome.student_accuracy))
    table.add_row("non-private accuracy", share(outcome.nonprivate_accuracy))
    table.add_row("noise", f"{outcome.noise:.4g} {_unit(experiment)}")
    table.add_row("fixed before the run", _listed(outcome.planned))
    table.add_row("spent", _listed(outcome.spent))
    table.add_row("guarantee", str(outcome.guarantee))
    if summary["out"]:
        table.add_row("results", summary["out"])
    if summary.get("bytes_per_client") is not None:
        table.add_row("sent by a client", f"{summary['bytes_per_client']:.0f} bytes, of {summary['clients']} clients")
    screen = ac.terminal.console()
    screen.print(table)


def _unit(experiment: Experiment | ReverseExperiment) -> str:
    if experiment.setting.mechanism == "noisy-sgd":
        return "times the clip"
    local = getattr(experiment.setting, "model", "central") != "central"
    return "votes" if not local or getattr(experiment.setting, "randomizer", "") == "shares" else "epsilon of a report"


def _listed(run: ac.Composition) -> str:
    return " + ".join(f"{count} {ac.terminal.short(event)}" for event, count in run) or "nothing"
