"""Command line: ``mechanisms label reverse-knn --data digits --epsilon 1 --delta 0 --clients 50``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import accountant as ac
from mechanisms.cli_data import parts, refuse_finished, warn_of_seed, write_results

__all__ = ["add_reverse_options", "run_reverse"]


def add_reverse_options(parser: argparse.ArgumentParser) -> None:
    """What `mechanisms label reverse-knn` takes besides the data and the target."""
    from mechanisms.clients import MODELS
    from mechanisms.releases import NOISES, RANDOMIZERS

    number, whole = ac.terminal.number, ac.terminal.whole
    add = parser.add_argument
    add("--model", default="central", choices=tuple(MODELS), help="whom clients trust (default central)")
    add("--noise", default="laplace", choices=NOISES, help="of the central model (default laplace)")
    add("--randomizer", default="collision", choices=RANDOMIZERS, help="of the other models (default collision)")
    add("--clients", type=whole, default=10, help="among which private records are split (default 10)")
    add(
        "--client-split",
        default="iid",
        choices=("iid", "by-label", "dirichlet"),
        help="how they are split (default iid)",
    )
    add("--queries", type=whole, default=40, help="queries of a round (default 40)")
    add("--neighbors", type=whole, default=1, help="k, queries that a record votes for (default 1)")
    add("--rounds", type=whole, default=1, help="later ones ask where a student is least certain")
    add("--balance", type=number, default=0.0, help="strength, 0 to 1, of prices that even out queries (default 0)")
    add("--dropout", type=number, default=0.0, help="share of reports that may be missing when they are shuffled")
    add("--adjacency", default="replace", choices=("replace", "add-remove"), help="add-remove: central model alone")
    add("--features", default="raw", choices=("raw", "standardised", "hog"), help="default raw")


def run_reverse(options: argparse.Namespace) -> int:
    """Run `mechanisms label reverse-knn`."""
    from dataclasses import fields

    from mechanisms.cli import open_journal, print_outcome, remove_journal, summary_of
    from mechanisms.reverse_experiment import ReverseExperiment, ReverseSetting

    refuse_finished(options)
    given = parts(options)
    named = vars(options)
    chosen = {each.name: named[each.name] for each in fields(ReverseSetting) if each.init and each.name in named}
    experiment = ReverseExperiment(ReverseSetting(**chosen), given.private, given.public, given.test, given.n_classes)
    warn_of_seed(options)
    with open_journal(options.out) as journal:
        outcome = experiment.run(journal)
    summary: dict[str, Any] = {
        **summary_of(options, experiment, outcome),
        "model": options.model,
        "clients": options.clients,
        "bytes_per_client": experiment.bytes_per_client,
        "noiseless_accuracy": experiment.noiseless_accuracy,
    }
    if options.out:
        columns = {"label": outcome.labels, "answered": outcome.labels >= 0, "prediction": outcome.predictions}
        write_results(Path(options.out), columns, summary)
        remove_journal(options.out)
    if options.json:
        ac.terminal.print_json(summary)
    else:
        print_outcome(experiment, outcome, summary)
    return 0
