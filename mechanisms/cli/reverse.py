"""Command line: ``mechanisms label reverse-knn --data digits --epsilon 1 --delta 0 --out labels.npz``."""

from __future__ import annotations

import argparse
from typing import Any

import accountant as ac
from mechanisms.cli.cluster_option import add_cluster, on_cluster
from mechanisms.cli.data import warn_of_seed
from mechanisms.cli.numbers_file import read_whole_numbers
from mechanisms.cli.preparation import plan_run, read_data, warn_of_delta
from mechanisms.cli.results_file import OptionError, find_results
from mechanisms.cli.sharded import use_cluster
from mechanisms.cli.student import add_student

__all__ = ["add_reverse_options", "run_reverse"]

USUAL_QUERIES = 40


def add_reverse_options(parser: argparse.ArgumentParser) -> None:
    """Options of `mechanisms label reverse-knn` beside those for the data and the guarantee."""
    from mechanisms.federation.client import MODELS
    from mechanisms.federation.trust_models import NOISES, RANDOMIZERS

    number, whole = ac.terminal.number, ac.terminal.whole
    add = parser.add_argument
    add("--model", default="central", choices=tuple(MODELS), help="whom clients trust (default central)")
    add("--noise", choices=NOISES, help="of the central model (default laplace)")
    add("--randomizer", choices=RANDOMIZERS, help="of the other models (default collision)")
    add("--clients", type=whole, help="among which private records are split (default 10, or as many as records)")
    add(
        "--client-split",
        choices=("iid", "by-label", "dirichlet"),
        help="how they are split (default iid)",
    )
    add_cluster(parser)
    add("--queries", type=whole, help="queries of a round (default 40, or all public points; or the clusters given)")
    clusters = "cluster of each public point, from 0, line by line: found elsewhere, without the private records"
    add("--assignment", metavar="@FILE", type=_parse_assignment, help=clusters)
    add("--neighbors", type=whole, default=1, help="k, queries that a record votes for (default 1)")
    add("--rounds", type=whole, default=1, help="later ones ask where a student is least certain")
    add("--balance", type=number, default=0.0, help="strength, 0 to 1, of prices that even out queries (default 0)")
    add("--dropout", type=number, help="share of reports that may be missing when they are shuffled")
    add("--adjacency", default="replace", choices=("replace", "add-remove"), help="add-remove: central model alone")
    add_student(parser)


def _parse_assignment(text: str) -> tuple[int, ...]:
    """The whole numbers in a file."""
    if not text.startswith("@"):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: @FILE of clusters")
    return read_whole_numbers(text, "a cluster number, from 0, on each line")


def _refuse_unused(options: argparse.Namespace) -> None:
    """Refuse options that the model does not read: whoever gives them means another model.

    Raises
    ------
    OptionError
    """
    read_by = {"noise": ("central",), "randomizer": ("local", "shuffle"), "dropout": ("shuffle",)}
    for name, models in read_by.items():
        if getattr(options, name) is not None and options.model not in models:
            accepted = f"--model {' or '.join(models)}, or no --{name}"
            raise OptionError(f"--{name} {getattr(options, name)} with --model {options.model}; accepted: {accepted}")


def run_reverse(options: argparse.Namespace) -> int:
    """Run `mechanisms label reverse-knn`."""
    from dataclasses import fields

    from mechanisms.cli.summary import make_columns, price_total, show, show_plan, summarise, summarise_plan
    from mechanisms.experiment.reverse import ReverseExperiment, ReverseSetting

    results, data = find_results(options), read_data(options)
    replace = options.adjacency == "replace"
    if replace and options.records is not None:
        accepted = "--adjacency add-remove, or no --records: the number of records is public"
        raise OptionError(f"--records {options.records} was given with --adjacency replace; accepted: {accepted}")
    _refuse_unused(options)
    if options.queries is None:
        usual = min(USUAL_QUERIES, len(data.public))
        options.queries = usual if options.assignment is None else max(options.assignment) + 1
    named = {name: value for name, value in vars(options).items() if value is not None}
    setting = ReverseSetting(
        **{each.name: named[each.name] for each in fields(ReverseSetting) if each.init and each.name in named}
    )
    nominal = None if replace else data.nominal
    with plan_run():
        experiment = ReverseExperiment(setting, data.private, data.public, data.test, data.n_classes, nominal)
        total = price_total(results, experiment)
    more = {"model": options.model, "clients": None if on_cluster(options) else experiment.setting.clients}
    warn_of_delta(experiment.guarantee.delta, experiment.nominal)
    if options.dry_run:
        return show_plan(options, experiment, summarise_plan(options, data, experiment) | total | more)
    warn_of_seed(options)
    with use_cluster(options), results.open_journal() as files:
        outcome = experiment.run(files.journal, options.diagnostics)
        files.announce()
        summary: dict[str, Any] = summarise(options, data, experiment, outcome) | total | more
        files.write(make_columns(data, outcome), summary)
    show(options, experiment, outcome, summary)
    return 0
