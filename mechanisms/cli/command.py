"""Command line: ``mechanisms label private-knn --data digits --epsilon 2 --delta 1e-4``, and ``mechanisms predict``.

Exit status 0 on success, 2 on bad input, 130 if interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.data import LEARNT_CLASSES, Given, add_data, parts, seed, warn_of_seed
from mechanisms.cli.predict import add_predict
from mechanisms.cli.results import Output, add_output, output_of, progress_bar
from mechanisms.cli.reverse import add_reverse_options, run_reverse
from mechanisms.experiment.written import tables_of

if TYPE_CHECKING:
    from mechanisms.experiment.labelling import Experiment
    from mechanisms.experiment.outcome import Diagnostics, Outcome
    from mechanisms.experiment.reverse import ReverseExperiment

__all__ = ["columns_of", "main", "print_outcome", "show", "summary_of", "total_of"]

NOT_PRIVATE = "not private: do not publish"

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
    add("--diagnostics", action="store_true", help="print accuracies, too, which nobody paid for: not to be published")
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

    from mechanisms.experiment.labelling import Experiment, Setting

    output, given = output_of(options), parts(options)
    named = vars(options)
    setting = Setting(**{field.name: named[field.name] for field in fields(Setting) if field.name in named})
    experiment = Experiment(setting, given.private, given.public, given.test, given.n_classes, given.nominal)
    total = total_of(output, experiment)
    warn_of_seed(options)
    with (
        output.opened() as kept,
        progress_bar("labelling", experiment.queries * setting.rounds, options.json) as progress,
    ):
        outcome = experiment.run(kept.journal, kept.before(progress), options.diagnostics)
        kept.announce()
        summary = summary_of(options, given, experiment, outcome) | total
        kept.write(columns_of(given, outcome), summary)
    show(options, experiment, outcome, summary)
    return 0


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


# --- results -------------------------------------------------------------------------------------------


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
        "releases": tables_of(outcome.planned),
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
