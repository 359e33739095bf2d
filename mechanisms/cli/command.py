"""Command line: ``mechanisms label private-knn --data digits --epsilon 2 --delta 1e-4 --dry-run``; ``tune``.

Exit status 0 on success, 2 on bad input, 130 if interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import accountant as ac
from mechanisms.cli.cluster_option import add_cluster
from mechanisms.cli.data import add_data, parse_seed, warn_of_seed
from mechanisms.cli.numbers_file import read_whole_numbers
from mechanisms.cli.plan import add_plan
from mechanisms.cli.predict import add_predict
from mechanisms.cli.preparation import plan_run, read_data, warn_of_delta
from mechanisms.cli.progress import show_phases
from mechanisms.cli.reproduce import add_reproduce
from mechanisms.cli.results_file import add_output, find_results
from mechanisms.cli.reverse import add_reverse_options, run_reverse
from mechanisms.cli.sharded import use_cluster
from mechanisms.cli.student import add_student
from mechanisms.cli.summary import make_columns, price_total, show, show_plan, summarise, summarise_plan
from mechanisms.cli.tune import add_tune

__all__ = ["main", "make_parser"]


CHOICES_HELP = "queries: central ones of clusters (default), random or first ones, or @FILE with their rows from 0"

REVERSE = "noisy counts of records at the queries nearest to them, over a federation of clients"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    with show_phases():
        return int(ac.terminal.run_command("mechanisms", make_parser(), arguments))


def make_parser() -> Any:
    """The parser of all commands; the documentation's reference of commands is made of it."""
    terminal = ac.terminal
    parser = terminal.Parser(
        prog="mechanisms", description="Private labelling of public data, private prediction, and the papers' tables."
    )
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
        _add_common(added, name != "noisy-sgd")
        _add_specific(added, name)
    added = kinds.add_parser("reverse-knn", help=REVERSE, description=f"Label by {REVERSE}.")
    added.set_defaults(run=run_reverse)
    _add_target(added, True)
    add_reverse_options(added)
    add_predict(commands)
    add_plan(commands)
    add_tune(commands)
    add_reproduce(commands)
    return parser


def _add_target(parser: argparse.ArgumentParser, maps: bool, out: str = "", noise: str | None = None) -> None:
    """Options of the guarantee, the data and the results; `noise` names an option that can stand for --epsilon."""
    number = ac.terminal.number
    add = parser.add_argument
    instead = "" if noise is None else f"; or {noise}, from which it follows"
    add("--epsilon", type=number, required=noise is None, help=f"the guarantee, for all that is released{instead}")
    add("--delta", type=number, required=True, help="of the guarantee; well below one over the number of records")
    add_data(parser, maps)
    add("--ids", metavar="NAME", help="column that identifies records and queries: no feature, but in the results")
    add("--seed", type=parse_seed, help="reproducible; without it exact noise from the system, as real releases need")
    add("--diagnostics", action="store_true", help="print accuracies, too, which nobody paid for: not to be published")
    add_output(parser, f"results as .npz, .parquet or .csv{out}", dry_run=True)


def _add_common(parser: argparse.ArgumentParser, maps: bool) -> None:
    noise = "--vote-sigma" if maps else "--noise-multiplier"
    _add_target(parser, maps, "; an interrupted run goes on when started again", noise)
    add = parser.add_argument
    add("--method", choices=("renyi", "tight", "auto"), help="route to the price (default auto)")
    conversions = ("improved", "classic", "optimal")
    add("--conversion", choices=conversions, help="Rényi to epsilon; one that is named means that route")


def _add_specific(parser: argparse.ArgumentParser, name: str) -> None:
    number, whole = ac.terminal.number, ac.terminal.whole
    add = parser.add_argument
    if name in ("private-knn", "noisy-sgd"):
        add("--sampling-rate", type=number, default=0.5, help="of a sample (default 0.5); batches are a tenth of it")
    if name == "noisy-sgd":
        add("--steps", type=whole, default=500, help="gradient steps (default 500)")
        add("--batch", type=whole, help="expected size of a batch, in place of --sampling-rate")
        add("--clip", type=number, default=0.1, help="largest length of a record's gradient (default 0.1)")
        add("--learning-rate", type=number, default=0.02, help="step for the sum of clipped gradients (default 0.02)")
        add("--hidden", type=whole, help="units of a hidden layer (default: none, softmax regression)")
        add("--noise-multiplier", type=number, help="noise over the clip, in place of --epsilon")
        return
    if name == "private-knn":
        add("--neighbors", type=whole, help="k (default: a class's share of a sample)")
        add_cluster(parser)
    else:
        add("--teachers", type=whole, help="shards (default: one for every eight records)")
        add("--teacher", default="logistic", choices=("logistic", "nearest"), help="regression, or the nearest record")
    if name != "lnmax":
        text = "label sets, zeros and ones: the number of labels to which a vote is clipped; no screening"
        add("--clip", type=number, help=text)
    add("--queries", type=whole, help="points to ask about in a round (default: what the budget can label well)")
    add("--choose", type=_parse_choice, default="central", metavar="HOW", help=CHOICES_HELP)
    add("--rounds", type=whole, default=1, help="the student's last hidden layer is the next round's features")
    add("--max-labels", type=whole, help="most answers in a round (default: all queries)")
    add("--screening-ratio", type=number, help="screen queries, at so many times the noise of a vote (papers: 3)")
    add("--vote-sigma", type=number, help="noise of the votes, in place of --epsilon; needs --queries")
    add("--screening-sigma", type=number, help="noise of the screening, beside --vote-sigma")
    add("--threshold", type=number, help="votes that pass screening (default 0.6 of the neighbours or teachers)")
    add_student(parser)


def _parse_choice(text: str) -> str | tuple[int, ...]:
    """A way to choose queries, or the rows in a file."""
    if not text.startswith("@"):
        if text not in ("central", "random", "first"):
            raise argparse.ArgumentTypeError(f"{text!r}; accepted: central, random, first, or @FILE of rows")
        return text
    return read_whole_numbers(text, "a row number, from 0, on each line")


# --- running -------------------------------------------------------------------------------------------


def _run_label(options: argparse.Namespace) -> int:
    from dataclasses import fields

    from mechanisms.experiment.labelling import Experiment, Setting

    results, data = find_results(options), read_data(options)
    named = vars(options)
    setting = Setting(**{field.name: named[field.name] for field in fields(Setting) if field.name in named})
    with plan_run():
        experiment = Experiment(setting, data.private, data.public, data.test, data.n_classes, data.nominal)
        total = price_total(results, experiment)
    warn_of_delta(experiment.guarantee.delta, experiment.nominal)
    if options.dry_run:
        return show_plan(options, experiment, summarise_plan(options, data, experiment) | total)
    warn_of_seed(options)
    with use_cluster(options), results.open_journal() as files:
        outcome = experiment.run(files.journal, files.announce, options.diagnostics)
        files.announce()
        summary = summarise(options, data, experiment, outcome) | total
        files.write(make_columns(data, outcome), summary)
    show(options, experiment, outcome, summary)
    return 0
