"""Command line: ``mechanisms label private-knn --data digits --epsilon 2 --delta 1e-4``.

Exit status 0 on success, 2 on bad input, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac

if TYPE_CHECKING:
    from mechanisms.datasets import Dataset
    from mechanisms.experiment import Experiment, Outcome
    from mechanisms.journal import Journal

__all__ = ["main"]

SPLIT = (0.55, 0.28, 0.17)
"""Shares of private, public and test records where one data set is cut into three."""

OUTPUTS = (".npz", ".parquet")


class UsageError(ac.AccountantError, ValueError):
    """Options that do not go together, or an output that cannot be written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return int(ac.terminal.run_command("mechanisms", _parser(), arguments))


def _parser() -> Any:
    terminal = ac.terminal
    parser = terminal.Parser(prog="mechanisms", description="Private labelling of public data.")
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
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    number, whole = ac.terminal.number, ac.terminal.whole
    add = parser.add_argument
    add("--epsilon", type=number, required=True, help="the guarantee, for everything that is released")
    add("--delta", type=number, required=True)
    add(
        "--data", metavar="SOURCE", help="labelled records to be cut in three: digits, a file, a directory, openml:NAME"
    )
    add("--split", metavar="A,B,C", help=f"shares or numbers of private, public, test records (default {_text(SPLIT)})")
    add("--private", metavar="SOURCE", help="labelled private records, instead of --data")
    add("--public", metavar="SOURCE", help="public points; labels, if any, are used for accuracies only")
    add("--test", metavar="SOURCE", help="labelled test records, for accuracies")
    add("--classes", type=whole, help="number of classes (default: the largest label that occurs, plus 1)")
    add("--method", choices=("renyi", "tight", "auto"), help="route to the price (default auto; renyi with screening)")
    add("--conversion", default="improved", choices=("improved", "classic", "optimal"), help="Rényi to epsilon")
    add("--seed", type=_seed, help="reproducible; without it exact noise from the system, as real releases need")
    add("--out", metavar="FILE", help="results as .npz or .parquet; an interrupted run goes on when started again")
    add("--json", action="store_true", help="one JSON object instead of a table")


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


def _seed(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= 0")
    return int(text)


def _text(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


# --- data ----------------------------------------------------------------------------------------------


def _parts(options: argparse.Namespace) -> tuple[Dataset, Dataset, Dataset | None]:
    """Private, public and test records."""
    from mechanisms.datasets import load, private_public_test_split

    if options.data is not None:
        if options.private or options.public or options.test:
            raise UsageError("--data was given with --private, --public or --test; accepted: one or the other")
        data = load(options.data)
        # the cut is public and has to be the same when an interrupted run goes on
        parts = private_public_test_split(data, _sizes(options.split, len(data)), options.seed or 0)
        return parts.private, parts.public, parts.test
    if not options.private or not options.public or options.split:
        raise UsageError("accepted: --data SOURCE [--split A,B,C], or --private SOURCE --public SOURCE [--test SOURCE]")
    return load(options.private), load(options.public, labelled=False), load(options.test) if options.test else None


def _sizes(split: str | None, n: int) -> tuple[int, int, int]:
    """Numbers of private, public and test records from shares or numbers."""
    accepted = f"accepted: three shares that sum to at most 1, or three whole numbers that sum to at most {n}"
    try:
        values = [float(part) for part in (split or _text(SPLIT)).split(",")]
    except ValueError:
        values = []
    shares = sum(values) <= 1 + 1e-12
    if len(values) != 3 or not all(value > 0 and (shares or value == int(value)) for value in values):
        raise UsageError(f"--split {split}: {accepted}")
    first, second, third = (int(value * n + 1e-9) if shares else int(value) for value in values)
    if first + second + third > n or min(first, second, third) < 1:
        raise UsageError(f"--split {split}: {accepted}")
    return first, second, third


# --- running -------------------------------------------------------------------------------------------


def _run_label(options: argparse.Namespace) -> int:
    from dataclasses import fields

    from mechanisms.experiment import Experiment, Setting

    if options.out:
        _check_output(Path(options.out))
    private, public, test = _parts(options)
    named = vars(options)
    setting = Setting(**{field.name: named[field.name] for field in fields(Setting) if field.name in named})
    experiment = Experiment(setting, private, public, test, options.classes)
    with _journal(options.out) as journal, _progress(experiment, options.json) as progress:
        outcome = experiment.run(journal, progress)
        summary = _summary(options, experiment, outcome)
        if options.out:
            _write(Path(options.out), outcome, summary)
    if options.out:
        _remove_journal(options.out)
    if options.json:
        ac.terminal.print_json(summary)
    else:
        _print_table(experiment, outcome, summary)
    return 0


@contextmanager
def _journal(out: str | None) -> Iterator[Journal | None]:
    from mechanisms.journal import Journal

    if not out:
        yield None
        return
    path = Path(f"{out}.journal")
    if path.exists():
        print(f"mechanisms: going on with the interrupted run in {path}", file=sys.stderr)
    with Journal(path) as journal:
        yield journal


def _remove_journal(out: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.remove(f"{out}.journal{suffix}")


@contextmanager
def _progress(experiment: Experiment, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar on the terminal's error stream."""
    console = ac.terminal.console(stderr=True)
    total = experiment.queries * experiment.setting.rounds
    if quiet or not console.is_terminal or total == 0:
        yield None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("labelling", total=total)
        yield lambda done: bar.update(task, completed=done)


# --- results -------------------------------------------------------------------------------------------


def _check_output(path: Path) -> None:
    """Refuse an output that could not be written, before anything is spent."""
    if path.suffix not in OUTPUTS:
        raise UsageError(f"--out {path}: accepted: a file ending in {' or '.join(OUTPUTS)}")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--out {path}: accepted: a file in an existing directory that can be written")
    if path.suffix == ".parquet":
        from mechanisms.validation import needed

        needed("pyarrow.parquet")


def _summary(options: argparse.Namespace, experiment: Experiment, outcome: Outcome) -> dict[str, Any]:
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


def _write(path: Path, outcome: Outcome, summary: dict[str, Any]) -> None:
    """All of the results or nothing: written beside the file, then moved over it."""
    about = json.dumps(summary, allow_nan=True)
    columns: dict[str, Any] = {
        "label": outcome.labels,
        "answered": outcome.labels >= 0,
        "prediction": outcome.predictions,
    }
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as stream:
            if path.suffix == ".npz":
                np.savez(stream, summary=np.array(about), **columns)
            else:
                import pyarrow
                import pyarrow.parquet

                table = pyarrow.table(columns).replace_schema_metadata({"summary": about})
                pyarrow.parquet.write_table(table, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}; the labels are kept in {path}.journal") from None
    finally:
        with suppress(FileNotFoundError):
            os.remove(partial)


def _print_table(experiment: Experiment, outcome: Outcome, summary: dict[str, Any]) -> None:
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
    table.add_row("noise", f"{outcome.noise:.4g} " + ("votes" if outcome.asked else "times the clip"))
    table.add_row("fixed before the run", _listed(outcome.planned))
    table.add_row("spent", _listed(outcome.spent))
    table.add_row("guarantee", str(outcome.guarantee))
    if summary["out"]:
        table.add_row("results", summary["out"])
    screen = ac.terminal.console()
    screen.print(table)
    if experiment.setting.seed is not None:
        screen.print("drawn from a seed: for experiments, not for a release")


def _listed(run: ac.Composition) -> str:
    return " + ".join(f"{count} {ac.terminal.short(event)}" for event, count in run) or "nothing"
