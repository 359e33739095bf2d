"""Command line: ``mechanisms reproduce``, ``mechanisms reproduce private-knn table-1 --small``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import accountant as ac
from mechanisms.cli.results_file import OptionError

if TYPE_CHECKING:
    from mechanisms.papers import Item, Request

__all__ = ["add_reproduce"]

USUAL = ("mnist", "svhn", "cifar10", "fashion-mnist")
"""Data that have an option of their own."""

ALL = "all"


def add_reproduce(commands: Any) -> None:
    """Add the subcommand `reproduce`."""
    text = (
        "Run a table or figure of the papers: what is printed beside ours, and why they differ. Without an item, list "
        "all of them. Noise comes from seeds, so that results are reproducible: nothing here protects the records."
    )
    parser = commands.add_parser("reproduce", help="Run a table or figure of the papers.", description=text)
    parser.set_defaults(run=_run_reproduce)
    add = parser.add_argument
    add("paper", nargs="?", metavar="PAPER", help="private-knn, ind-knn, ind-knn-supplement, reverse-knn, ...; or all")
    add("item", nargs="?", metavar="ITEM", help="such as table-1; without it, all items of the paper")
    for name in USUAL:
        add(f"--{name}", metavar="DIR", help=f"directory of {name}'s files")
    add("--data", action="append", default=[], metavar="NAME=PATH", help="other data that an item needs, by name")
    votes = "the votes in --data votes=FILE are public: write prices that depend on them"
    add("--public-votes", action="store_true", help=votes)
    add("--small", action="store_true", help="run on real data that comes with Python packages, in up to three minutes")
    add("--out", default="reproduced", metavar="DIR", help="results, and units that are done (default reproduced)")
    add(
        "--jobs",
        type=ac.terminal.whole,
        default=1,
        metavar="N",
        help="items at a time, in as many processes (default 1)",
    )
    add("--seeds", type=ac.terminal.whole, metavar="N", help="most runs of a row (default: as its file says)")
    ac.terminal.add_forms(parser, ("json", "markdown"))


def _run_reproduce(options: argparse.Namespace) -> int:
    from mechanisms.papers import Request, list_items, load_item
    from mechanisms.papers.catalogue import PAPERS

    if options.paper is None:
        _print_list(list_items(), options)
        return 0
    given = _read_data(options)
    request = Request(given, options.small, Path(options.out), options.seeds, options.public_votes)
    if options.item is not None:
        return _run_one(load_item(options.paper, options.item), request, options)
    if options.paper != ALL and options.paper not in PAPERS:
        raise OptionError(f"paper = {options.paper!r}; accepted: {', '.join(PAPERS)}, {ALL}")
    chosen = [item for item in list_items() if options.paper in (item.paper, ALL)]
    return _run_many(chosen, request, options)


def _read_data(options: argparse.Namespace) -> dict[str, str]:
    """The user's files by name."""
    given = {name: getattr(options, name.replace("-", "_")) for name in USUAL}
    for text in options.data:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise OptionError(f"--data {text}; accepted: NAME=PATH, such as celeba=/data/celeba")
        given[name] = path
    found = {name: path for name, path in given.items() if path is not None}
    for name, path in found.items():
        if not Path(path).exists():
            raise OptionError(f"{name}: no such file or directory {path}; accepted: one that is there")
    return found


def _print_list(items: tuple[Item, ...], options: argparse.Namespace) -> None:
    rows = [[item.paper, item.name, item.title, item.status, _say_time(item)] for item in items]
    columns = [ac.terminal.Column("paper", wrap=False), ac.terminal.Column("item", wrap=False)]
    columns += [ac.terminal.Column("what"), ac.terminal.Column("status"), ac.terminal.Column("small; full", wrap=False)]
    run = "mechanisms reproduce PAPER ITEM [--small] runs one; small: as measured, on one core; in full: guesses."
    ac.terminal.write_table(
        ac.terminal.Table("Tables and figures of the papers", columns, rows, notes=[run]), options.form
    )


def _say_time(item: Item) -> str:
    if not item.rows:
        return ""
    small, full = (_format_time(item.seconds.get(which, 0.0)) for which in ("small", "full"))
    return full if small == full else f"{small}; {full}"


def _format_time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def _run_one(item: Item, request: Request, options: argparse.Namespace) -> int:
    from mechanisms.papers import reproduce, write_result
    from mechanisms.papers.runner import choose_units
    from mechanisms.papers.writing import to_json, to_markdown, to_table

    choose_units(item, request)  # what is refused leaves no directory
    out = _prepare(request)
    try:
        result = reproduce(item, request)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"what is done is kept in {out / 'units'}; the same command goes on") from None
    paths = write_result(result, out)
    if options.form == "json":
        ac.terminal.print_json(to_json(result))
    elif options.form == "markdown":
        print(to_markdown(result), end="")
    else:
        ac.terminal.write_table(to_table(result), "table")
    print(f"mechanisms: written to {', '.join(map(str, paths))}", file=sys.stderr)
    return 0


def _prepare(request: Request) -> Path:
    """The directory of the results, made if it is not there."""
    assert request.out is not None
    try:
        request.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--out {request.out}: {error.strerror}; accepted: a directory that can be written") from None
    ac.files.check_output(request.out / "results.md", name="--out", refuse=OptionError)
    return request.out


def _run_many(items: list[Item], request: Request, options: argparse.Namespace) -> int:
    """Run items, one after the other or several at a time, with a line for each; those that cannot run are named."""
    out, rows = _prepare(request), []
    for item, said, took in _results(items, request, options.jobs):
        print(f"mechanisms: {item.paper} {item.name}: {said or f'{took:.0f} s'}", file=sys.stderr, flush=True)
        rows.append([item.paper, item.name, said or "done", round(took, 1)])
    columns = [ac.terminal.Column(each, wrap=each == "result") for each in ("paper", "item", "result")]
    columns.append(ac.terminal.Column("seconds", "number", wrap=False))
    table = ac.terminal.Table(f"Results in {out}", columns, rows)
    ac.terminal.write_table(table, options.form)
    _write_summary(items, request, out)
    return 0


def _results(items: list[Item], request: Request, jobs: int) -> Iterator[tuple[Item, str, float]]:
    """Items as they are done: why each was not run (empty if it was), and seconds."""
    work = [(item.paper, item.name, request) for item in items]
    if jobs <= 1:
        for item, each in zip(items, work, strict=True):
            yield (item, *_try(each))
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for item, (said, took) in zip(items, pool.imap(_try, work), strict=True):
            yield item, said, took


def _try(work: tuple[str, str, Request]) -> tuple[str, float]:
    """Run one item and write its result."""
    from mechanisms.papers import ItemError, load_item, reproduce, write_result

    paper, name, request = work
    item, begin = load_item(paper, name), time.perf_counter()
    if not item.rows:
        return item.status, 0.0
    assert request.out is not None
    try:
        write_result(reproduce(item, request), request.out)
    except (ItemError, ac.DataDependentError) as error:  # data that are not given, or not to be told of
        return f"not run: {error}", time.perf_counter() - begin
    return "", time.perf_counter() - begin


def _write_summary(items: list[Item], request: Request, out: Path) -> None:
    """All results of the directory on one page."""
    from mechanisms.papers.writing import join_pages

    name = "results-small.md" if request.small else "results.md"
    ac.files.write_text(out / name, join_pages(items, out, request.small))
