"""Command line: ``mechanisms label reverse-knn --data digits --epsilon 1 --delta 0 --clients 50``."""

from __future__ import annotations

import argparse
from typing import Any

import accountant as ac
from mechanisms.cli.data import parts, warn_of_seed
from mechanisms.cli.results_file import OptionError, output_of

__all__ = ["add_reverse_options", "run_reverse"]


def add_reverse_options(parser: argparse.ArgumentParser) -> None:
    """What `mechanisms label reverse-knn` takes besides the data and the target."""
    from mechanisms.federation.client import MODELS
    from mechanisms.federation.trust_models import NOISES, RANDOMIZERS

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

    from mechanisms.cli.summary import columns_of, show, summary_of, total_of
    from mechanisms.experiment.reverse import ReverseExperiment, ReverseSetting

    output, given = output_of(options), parts(options)
    replace = options.adjacency == "replace"
    if replace and options.records is not None:
        accepted = "--adjacency add-remove, or no --records: the number of records is public"
        raise OptionError(f"--records {options.records} was given with --adjacency replace; accepted: {accepted}")
    named = vars(options)
    setting = ReverseSetting(
        **{each.name: named[each.name] for each in fields(ReverseSetting) if each.init and each.name in named}
    )
    nominal = None if replace else given.nominal
    experiment = ReverseExperiment(setting, given.private, given.public, given.test, given.n_classes, nominal)
    total = total_of(output, experiment)
    warn_of_seed(options)
    with output.opened() as kept:
        outcome = experiment.run(kept.journal, options.diagnostics)
        kept.announce()
        more = {"model": options.model, "clients": options.clients}
        summary: dict[str, Any] = summary_of(options, given, experiment, outcome) | total | more
        kept.write(columns_of(given, outcome), summary)
    show(options, experiment, outcome, summary)
    return 0
