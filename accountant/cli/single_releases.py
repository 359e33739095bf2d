"""``accountant gaussian``, ``laplace`` and ``pate``: releases that people look up, priced without a plan."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from accountant.cli.answers import Answer, add_output, check_write, write_answer
from accountant.errors import PlanError, real
from accountant.guarantee import Guarantee
from accountant.plan import Plan
from accountant.price import delta, epsilon
from accountant.targets import calibrate
from accountant.terminal import number, show_work, whole

__all__ = ["add_single_releases"]

Lines = Callable[[float], list[dict[str, Any]]]
"""From a noise scale to the lines of a plan."""


def add_single_releases(commands: Any) -> None:
    """Add the subcommands to a parser's commands."""
    for name, noise, run, text in (
        (
            "gaussian",
            "sigma",
            _run_gaussian,
            "Gaussian noise: two of --sigma, --epsilon and --delta give the third.",
        ),
        ("laplace", "scale", _run_laplace, "Laplace noise: --scale or --epsilon gives the other one, at --delta."),
        (
            "pate",
            "sigma",
            _run_pate,
            "Noisy votes of teachers: two of --sigma, --epsilon and --delta give the third.",
        ),
    ):
        parser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(run=run)
        add = parser.add_argument
        add(f"--{noise}", type=number, help="scale of the noise")
        add("--epsilon", type=number, help="the target; with the noise, where delta is asked for")
        add("--delta", type=number, **_delta_of(name))
        if name == "pate":
            add("--queries", type=whole, default=1, metavar="N", help="queries that teachers vote on (default 1)")
            add("--laplace", action="store_true", help="Laplace noise on the votes (LNMax), of scale --sigma")
            add("--screening-sigma", type=number, help="noise of a screening before every vote (Confident-GNMax)")
            add("--threshold", type=number, help="votes that the screening asks for")
            add("--teachers", type=whole, help="number of teachers; needed with a screening")
            add("--answers", type=whole, metavar="N", help="queries that pass the screening at most (default: all)")
        else:
            add("--sensitivity", type=number, default=1.0, help="largest distance of neighbours (default 1)")
            add("--count", type=whole, default=1, help="number of such releases (default 1)")
            add("--rate", type=number, help="every release draws a Poisson sample of the records at this rate")
        if name == "laplace":
            add("--coordinates", type=whole, default=1, help="entries that each move by the sensitivity (default 1)")
        add_output(parser)


def _delta_of(name: str) -> dict[str, Any]:
    """How --delta is added."""
    if name == "laplace":
        return {"default": 0.0, "help": "default 0: pure DP"}
    return {"help": "the target, or what to take epsilon at"}


def _run_gaussian(options: argparse.Namespace) -> int:
    return _run(options, "gaussian", "sigma", {"sensitivity": options.sensitivity})


def _run_laplace(options: argparse.Namespace) -> int:
    more = {"sensitivity": options.sensitivity, "coordinates": options.coordinates}
    return _run(options, "laplace", "scale", more)


def _run(options: argparse.Namespace, event: str, key: str, more: dict[str, Any]) -> int:
    """One kind of release, `count` times."""
    check_write(options)
    sampled = {} if options.rate is None else {"sampling_rate": real("--rate", options.rate, 0.0, 1.0)}

    def lines(noise: float) -> list[dict[str, Any]]:
        return [{"name": "release", "event": event, key: noise, **more, **sampled, "count": options.count}]

    return _finish(options, event, key, lines)


def _run_pate(options: argparse.Namespace) -> int:
    check_write(options)
    screening = {
        "--screening-sigma": options.screening_sigma,
        "--threshold": options.threshold,
        "--teachers": options.teachers,
    }
    missing = [name for name, value in screening.items() if value is None]
    if missing == ["--screening-sigma", "--threshold"]:
        accepted = "without it, as the price of votes alone is that of any number of teachers; or with a screening"
        raise PlanError(f"--teachers {options.teachers}; accepted: {accepted}: {', '.join(missing)}")
    if 0 < len(missing) < len(screening):
        raise PlanError(f"a screening without {', '.join(missing)}; accepted: all of {', '.join(screening)}, or none")
    if options.answers is not None and (missing or options.answers > options.queries):
        raise PlanError(f"--answers {options.answers}; accepted: with a screening, at most --queries {options.queries}")
    event, key = ("lnmax", "scale") if options.laplace else ("gnmax", "sigma")
    before = {
        "name": "screening",
        "event": "noisy-screening",
        "sigma": options.screening_sigma,
        "threshold": options.threshold,
        "max_votes": options.teachers,
        "count": options.queries,
    }

    def lines(noise: float) -> list[dict[str, Any]]:
        votes = {"name": "votes", "event": event, key: noise, "count": options.answers or options.queries}
        return [votes] if missing else [before, votes]

    return _finish(options, "pate", "sigma", lines)


def _finish(options: argparse.Namespace, name: str, noise: str, lines: Lines) -> int:
    """Find what was not given, and print the answer."""
    given = {f"--{noise}": getattr(options, noise), "--epsilon": options.epsilon, "--delta": options.delta}
    stated = [option for option, value in given.items() if value is not None]
    if given[f"--{noise}"] is None and options.epsilon is None:
        known, more = ("--delta", " beside it") if options.delta else ("nothing", "")  # laplace has a default of 0
        raise PlanError(f"{known} given; accepted: --{noise} or --epsilon{more}")
    at = given["--delta"]
    if len(stated) == 3 and not (name == "laplace" and at == 0.0):
        raise PlanError(f"{', '.join(stated)}: nothing is left to find; accepted: two of them")
    if len(stated) < 2:
        raise PlanError(f"{', '.join(stated)} given; accepted: two of {', '.join(given)}")

    def plan_of(scale: float) -> Plan:
        top = {"adjacency": options.adjacency, "release": lines(scale)}
        return Plan.from_tables(name, top if at is None else {"delta": at, **top})

    scale, asks_delta = given[f"--{noise}"], given[f"--{noise}"] is not None and options.epsilon is not None
    with show_work("the price"):
        if scale is None:
            scale = calibrate(lambda noise: plan_of(noise).run, options.epsilon, at, tolerance=options.tolerance)
        plan = plan_of(scale)
        price, renyi = _price(plan, options, at, asks_delta=asks_delta)
    if asks_delta and 0 < price.delta < 1:
        plan = Plan.from_tables(name, {**plan.tables, "delta": price.delta})
    facts, record = [(f"noise ({noise})", repr(scale))], {noise: scale}
    notes = ["Every record belongs to one teacher at most."] if name == "pate" else []
    return write_answer(Answer(plan, price, renyi, facts, record, notes=notes, asks_delta=asks_delta), options)


def _price(plan: Plan, options: argparse.Namespace, at: float, *, asks_delta: bool) -> tuple[Guarantee, Guarantee]:
    """By the sharpest route that can say it, and by the Rényi route."""
    find, point = (delta, options.epsilon) if asks_delta else (epsilon, at)
    return find(plan.run, point, tolerance=options.tolerance), find(plan.run, point, method="renyi")
