"""``accountant plot PLAN --kind KIND -o FILE``: plots of a plan's privacy costs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accountant.cli.arguments import TOLERANCE, WIDTH, add_plan, read_plan
from accountant.errors import (
    NOT_RENYI,
    DataDependentError,
    NoGuarantee,
    PlanError,
    ProfileUnavailable,
    ToleranceUnreachable,
)
from accountant.events.composition import Composition
from accountant.files import check_output
from accountant.plan import Plan, Release
from accountant.renyi.conversion import CONVERSIONS
from accountant.terminal import delta_of, nonblank, number, number_range, show_work, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["add_plot"]

OPTIONS = {
    "order": ("delta", "conversion"),
    "releases": ("delta", "methods", "tolerance", "releases"),
    "parameter": ("delta", "methods", "tolerance", "vary", "values"),
    "worst-pair": (),
    "trade-off": ("methods", "tolerance"),
    "shares": ("delta", "conversion"),
}
"""Kinds of plots, and the options that apply to each."""


def add_plot(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Draw what a plan costs."
    parser = commands.add_parser("plot", help=text, description=text)
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add_plan(parser)
    add("--kind", choices=tuple(OPTIONS), help="what to draw (default: what tells most about this plan)")
    out = "a file ending in .svg, .png or .pdf (default: the plan's name and the kind, as .svg, in this directory)"
    add("-o", "--out", metavar="FILE", help=out)
    add("--delta", type=number, help="instead of the plan's delta")
    add("--conversion", choices=CONVERSIONS, help="order, shares: Rényi to epsilon (default improved)")
    add("--methods", metavar="A,B", type=_names, help="releases, parameter, trade-off: classic,improved,optimal,tight")
    add("--tolerance", type=number, help=WIDTH)
    add("--releases", type=whole, metavar="N", help="releases: draw up to N (default: as many as the plan has)")
    add("--vary", metavar="NAME.KEY", help="parameter: what to vary; A.KEY,B.KEY: one value for both")
    add("--values", metavar="A:B:N", help="parameter: N values from A to B")
    add("--public-votes", action="store_true", help="the votes in the plan are public: draw costs that depend on them")


def _names(text: str) -> list[str]:
    return [nonblank(part.strip()) for part in text.split(",")]


def _run(options: argparse.Namespace) -> int:
    from accountant.plots.style import FORMATS, need_matplotlib, save

    if options.kind is not None:
        _refuse_without_effect(options)
    target = None if options.out is None else check_output(options.out, FORMATS, keep=[options.plan])
    need_matplotlib()
    plan = read_plan(options)
    if plan.composition.data_dependent and not options.public_votes:
        raise DataDependentError(
            "this plan's cost depends on private data; accepted: other plans, or --public-votes if its votes are "
            "public or made up"
        )
    if options.kind is None:
        options.kind = _choose_kind(plan, options)
        _refuse_without_effect(options)
    if target is None:
        target = _free_output(plan, options.kind, FORMATS)
    with show_work(f"drawing {options.kind}"):
        axes = DRAW[options.kind](plan, options)
    save(axes, target, public_votes=options.public_votes, replace=options.out is not None)
    print(f"wrote {target}")
    return 0


def _refuse_without_effect(options: argparse.Namespace) -> None:
    """Refuse options that the kind of plot does not take."""
    taken = OPTIONS[options.kind]
    every = dict.fromkeys(option for each in OPTIONS.values() for option in each)
    for option in every:
        if option not in taken and getattr(options, option) is not None:
            kinds = ", ".join(kind for kind, known in OPTIONS.items() if option in known)
            raise PlanError(f"--{option} has no effect on --kind {options.kind}; accepted with: {kinds}")


def _choose_kind(plan: Plan, options: argparse.Namespace) -> str:
    """The plot that tells most: what is varied, what costs most, how the cost grows, or what an attacker sees."""
    if options.vary is not None or options.values is not None:
        return "parameter"
    if (plan.delta if options.delta is None else options.delta) is None:
        return "order"
    if sum(release.count > 0 for release in plan.releases) > 1 and options.methods is None:
        return "shares"
    if plan.composition.releases != 1:
        return "releases"
    return "trade-off" if options.delta is None else "order"


def _free_output(plan: Plan, kind: str, formats: Sequence[str]) -> Path:
    """A file in this directory that is not there yet."""
    stem = Path(plan.name).name.removesuffix(".toml").replace(" ", "-")
    out = check_output(f"{stem}-{kind}.svg", formats)
    if out.exists():
        raise PlanError(f"{str(out)!r} is there already; accepted: -o FILE, which may be the same")
    return out


def _tolerance(options: argparse.Namespace) -> float:
    return TOLERANCE if options.tolerance is None else float(options.tolerance)


def _draw_by(given: Sequence[str] | None, default: Sequence[str], draw: Callable[[Sequence[str]], Axes]) -> Axes:
    """Draw by the given methods; if there are none, by `default` and by the tight route, where these price the plan."""
    if given is not None:
        return draw(given)
    try:
        return draw([*default, "tight"])
    except (ProfileUnavailable, ToleranceUnreachable) as error:
        print(f"accountant: without the tight price: {error}", file=sys.stderr)
        return draw(default or ["improved"])
    except NoGuarantee as error:
        found = draw(["tight"])
        print(f"accountant: without the Rényi bounds: {str(error).removesuffix(NOT_RENYI)}", file=sys.stderr)
        return found


def _draw_order(plan: Plan, options: argparse.Namespace) -> Axes:
    from accountant import plots

    at = plan.delta if options.delta is None else options.delta
    conversion = options.conversion or "improved"
    runs = {release.name: release.composition for release in _select_costliest(plan, plan.releases, 6)}
    if len(plan.releases) != 1:
        runs = {_make_unique("whole plan", runs): plan.composition, **runs}
    return plots.curve_against_order(runs, delta=at or None, conversion=conversion)


def _select_costliest(plan: Plan, releases: Sequence[Release], most: int) -> list[Release]:
    """The costliest releases, in the plan's order; prints a note if some are left out."""
    kept = sorted(releases, key=lambda release: -float(release.composition.renyi(2.0)))[:most]
    if len(kept) < len(releases):
        print(f"accountant: {plan.name}: drawn are the {most} costliest of {len(releases)} releases", file=sys.stderr)
    return [release for release in releases if release in kept]


def _make_unique(name: str, taken: dict[str, Composition]) -> str:
    while name in taken:
        name = f"the {name}"
    return name


def _draw_releases(plan: Plan, options: argparse.Namespace) -> Axes:
    from accountant import plots

    run, at = plan.composition, delta_of(plan, options.delta)
    if not run.releases:
        raise PlanError(f"{plan.name}: no releases; accepted: at least one with a count above 0")
    last = options.releases or run.releases

    def draw(methods: Sequence[str]) -> Axes:
        return plots.epsilon_against_releases(run, last, delta=at, methods=methods, tolerance=_tolerance(options))

    return _draw_by(options.methods, ["classic", "improved"], draw)


def _draw_parameter(plan: Plan, options: argparse.Namespace) -> Axes:
    from accountant import plots

    if options.vary is None or options.values is None:
        raise PlanError("--kind parameter; accepted: with --vary NAME.KEY and --values A:B:N")
    at, values, vary = delta_of(plan, options.delta), number_range("--values", options.values), options.vary
    whole = any(plan.whole(*target) for target in plan.targets(vary, as_written=True))
    if whole:
        values = sorted({float(round(value)) for value in values})

    def draw(methods: Sequence[str]) -> Axes:
        return plots.epsilon_against_parameter(
            lambda value: plan.with_text(vary, int(value) if whole else value).composition,
            values,
            delta=at,
            name=vary,
            methods=methods,
            tolerance=_tolerance(options),
        )

    return _draw_by(options.methods, ["classic", "improved"], draw)


def _draw_worst_pair(plan: Plan, options: argparse.Namespace) -> Axes:
    from accountant import plots
    from accountant.plots.worst_pairs import has_pairs

    releases = [release for release in plan.releases if has_pairs(release.event)]
    if not releases:
        raise PlanError(f"{plan.name}: no noisy screening, which --kind worst-pair needs; accepted: --kind order")
    return plots.worst_pair({release.name: release.event for release in _select_costliest(plan, releases, 7)})


def _draw_trade_off(plan: Plan, options: argparse.Namespace) -> Axes:
    from accountant import plots

    def draw(methods: Sequence[str]) -> Axes:
        if len(methods) != 1:
            raise PlanError(f"--methods {','.join(methods)}; accepted with --kind trade-off: one method")
        tight = methods[0] == "tight"
        return plots.trade_off(
            plan.composition,
            method="tight" if tight else "renyi",
            conversion="improved" if tight else methods[0],
            tolerance=_tolerance(options),
        )

    return _draw_by(options.methods, [], draw)


def _draw_shares(plan: Plan, options: argparse.Namespace) -> Axes:
    from accountant import plots

    return plots.shares(plan, delta=delta_of(plan, options.delta), conversion=options.conversion or "improved")


DRAW: dict[str, Callable[[Plan, argparse.Namespace], Axes]] = {
    "order": _draw_order,
    "releases": _draw_releases,
    "parameter": _draw_parameter,
    "worst-pair": _draw_worst_pair,
    "trade-off": _draw_trade_off,
    "shares": _draw_shares,
}
