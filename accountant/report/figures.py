"""Plots of a plan for a page: SVG whose colours are variables of the page's style sheet."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

import numpy as np

from accountant import plots
from accountant.errors import NOT_RENYI, NoGuarantee, ParameterError
from accountant.guarantee import Guarantee, format_up
from accountant.plan import Plan, Release
from accountant.plots.findings import price_in_words
from accountant.plots.style import (
    GREY,
    LINES,
    STYLE,
    SUBTITLE,
    count_lines,
    darken,
    house_style,
    legend_below,
    retitle,
    style,
)
from accountant.plots.worst_pairs import has_pairs
from accountant.renyi.conversion import Conversion
from accountant.report.headline import attack_tolerance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Draft", "Plot", "Pricing", "draw_plot", "draw_plots", "mark_interval"]

TOGETHER = 6
"""Largest number of curves in one plot."""

SIZE = (4.9, 3.5)
"""Inches of a plot: at a scale of 1 it fits a telephone, and its text can be read."""


class Plot(NamedTuple):
    """A plot with its kind and caption; if it cannot be drawn, `svg` is empty and the caption says why."""

    svg: str
    caption: str
    kind: str


class Pricing(NamedTuple):
    """How the plan is priced, its certified interval or why there is none, and whether its attack figures are tight."""

    delta: float
    conversion: Conversion
    tolerance: float
    tight: Guarantee | str
    tight_attack: bool


class Draft(NamedTuple):
    """A plot that is to be drawn on axes."""

    kind: str
    draw: Callable[[Axes], Axes]
    caption: str
    size: tuple[float, float] = SIZE


def draw_plots(plan: Plan, pricing: Pricing, shares: list[float]) -> list[Plot]:
    """Draw shares, curves, epsilon by releases, worst counts of screenings, and the trade-off function.

    `shares`: of the releases in the cost.
    """
    if not plan.composition.releases:
        return []
    spent = [(release, share) for release, share in zip(plan.releases, shares, strict=True) if release.count]
    spent.sort(key=lambda each: -each[1])
    releases = [release for release, _ in spent]
    drafts = [_curves(plan, pricing, releases), _epsilons(plan, pricing)]
    if len(releases) > 1:
        drafts.insert(0, _shares(plan, pricing))
    screenings = {release.name: release.event for release in releases if has_pairs(release.event)}
    if screenings:
        caption = "A screening is priced at its worst neighbouring counts, and these depend on the order."
        drafts.append(Draft("worst-pair", lambda ax: plots.worst_pair(screenings, ax=ax), caption))
    drafts.append(_trade_off(plan, pricing))
    return [draw_plot(draft, f"plot{number}") for number, draft in enumerate(drafts)]


def _shares(plan: Plan, pricing: Pricing) -> Draft:
    return Draft(
        "shares",
        lambda ax: plots.shares(plan, delta=pricing.delta, conversion=pricing.conversion, ax=ax),
        "Where the privacy goes. Rényi curves of releases add, so at the order that sets epsilon each has a share.",
        (SIZE[0], 1.3 + 0.4 * min(len(plan.releases), 13)),
    )


def _curves(plan: Plan, pricing: Pricing, releases: list[Release]) -> Draft:
    """Curves of the plan and of its costliest releases; `releases`: the costliest first."""
    named = {release.name: release.composition for release in releases[:TOGETHER]}
    whole = "whole plan" if "whole plan" not in named else "the whole plan"
    curves = named if len(releases) == 1 else {whole: plan.composition, **named}
    caption = (
        "Upper bounds on the Rényi divergence between neighbouring inputs. Every order gives a valid epsilon; the "
        "marked one gives the smallest."
    )
    if len(releases) > TOGETHER:
        caption += f" The costliest {TOGETHER} releases are drawn."
    delta = pricing.delta or None
    return Draft(
        "curves",
        lambda ax: plots.curve_against_order(curves, delta=delta, conversion=pricing.conversion, ax=ax),
        caption,
    )


def _epsilons(plan: Plan, pricing: Pricing) -> Draft:
    run, tight = plan.composition, pricing.tight

    def draw(ax: Axes) -> Axes:
        methods = list(dict.fromkeys(["classic", pricing.conversion]))
        plots.epsilon_against_releases(run, run.releases, delta=pricing.delta, methods=methods, ax=ax)
        return ax if isinstance(tight, str) else mark_interval(ax, run.releases, tight)

    return Draft(
        "releases",
        draw,
        "How epsilon grows with the number of releases, in the plan's proportions. The gap between the lines and the "
        "certified interval is lost in the analysis, not in the mechanism.",
    )


def mark_interval(ax: Axes, releases: int, tight: Guarantee) -> Axes:
    """The certified interval of the whole plan beside lines of bounds."""
    lower = tight.lower or 0.0
    look = style(count_lines(ax))
    (line,) = ax.plot(
        [releases, releases], [lower, tight.epsilon], **{**look, "linestyle": "-"}, linewidth=2.6, clip_on=False
    )
    line.set_label(f"tight: {price_in_words(tight)}")
    bound = min(float(np.asarray(other.get_ydata(), dtype=float)[-1]) for other in ax.get_lines() if other is not line)
    headline = f"Certified: epsilon {price_in_words(tight)}; Rényi bound: {format_up(bound)}"
    retitle(ax, headline)
    return ax


def _trade_off(plan: Plan, pricing: Pricing) -> Draft:
    def draw(ax: Axes) -> Axes:
        return plots.trade_off(
            plan.composition,
            method="tight" if pricing.tight_attack else "renyi",
            conversion=pricing.conversion,
            tolerance=attack_tolerance(plan.composition, pricing.tolerance),
            ax=ax,
        )

    return Draft(
        "trade-off",
        draw,
        "What an attacker can do: any test that tells two neighbouring inputs apart has at least this type II "
        "error, given its type I error.",
        (SIZE[0], SIZE[0]),
    )


def draw_plot(draft: Draft, name: str) -> Plot:
    """The plot as SVG, with its legend below the axes; ids in it begin with `name`."""
    with house_style():
        from matplotlib.figure import Figure

        ax = Figure(figsize=draft.size, layout="constrained").subplots()
        try:
            draft.draw(ax)
        except (NoGuarantee, ParameterError) as error:  # such as too many releases, or no epsilon for some points
            return Plot("", f"Not drawn: {str(error).removesuffix(NOT_RENYI)}.", draft.kind)
        if draft.kind not in ("shares", "trade-off"):
            legend_below(ax)
        return Plot(_svg(ax, name), draft.caption, draft.kind)


def _svg(ax: Axes, prefix: str) -> str:
    """The figure as an SVG element with text, colours as variables, and ids that begin with `prefix`."""
    figure = ax.figure.figure
    figure.patch.set_visible(False)
    stream = io.StringIO()
    with house_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has fonts of its own
        figure.savefig(stream, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(stream.getvalue())
    for parent in root.iter():
        for child in list(parent):
            # a style sheet would apply to the whole page
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    colors = _color_variables()
    used = set(re.findall(r"(?:url\(|href=\")#([^\")]+)", stream.getvalue()))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        for name, value in attributes.items():
            if name != "id" or value in used:
                element.set(name, _rewrite_attribute(name, value, prefix, colors))
        used.discard(attributes.get("id", ""))  # an equal path may occur again, but its id only once
    subtitle = [text.get_text() for text in ax.texts if text.get_gid() == SUBTITLE]
    label = ". ".join(" ".join(text.replace("\\$", "$").split()) for text in [ax.get_title(loc="left"), *subtitle])
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    wide = root.attrib["viewBox"].split()[2]
    root.attrib.update({"class": "plot", "style": f"--wide: {wide}", "role": "img", "aria-label": label})
    return ElementTree.tostring(root, encoding="unicode")


def _rewrite_attribute(name: str, value: str, prefix: str, colors: dict[str, str]) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    value = value.replace("url(#", f"url(#{prefix}-")
    if name in ("style", "fill", "stroke"):
        value = re.sub(r"#[0-9a-f]{6}", lambda found: colors.get(found[0], "currentColor"), value)
        value = value.replace("'DejaVu Sans'", "var(--sans)")
    return value


def _color_variables() -> dict[str, str]:
    """The style sheet's variable for every colour of the house style."""
    from matplotlib.colors import to_hex

    found = {"#ffffff": "var(--paper)", GREY: "var(--faint)", STYLE["grid.color"]: "var(--rule)"}
    for number, (color, _, _) in enumerate(LINES):
        red, green, blue = darken(color)
        found[to_hex((red, green, blue))] = f"var(--label-{number})"
        found[to_hex(color)] = f"var(--line-{number})"
    # text is black or the colour of labels
    return {**found, STYLE["axes.labelcolor"]: "currentColor", "#000000": "currentColor"}
