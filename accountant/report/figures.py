"""Plots of a plan for a page: SVG whose colours are variables of the page's style sheet."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from xml.etree import ElementTree

from accountant import plots
from accountant.errors import NoGuarantee, ParameterError, ProfileUnavailable, ToleranceUnreachable
from accountant.plan import Plan, Release
from accountant.plots.style import GREY, LINES, STYLE, SUBTITLE, darken, house_style
from accountant.plots.worst_pairs import has_pairs
from accountant.renyi.conversion import Conversion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Plot", "Pricing", "draw_plots"]

TOGETHER = 6
"""Largest number of curves in one plot."""

WIDTH = 0.02
"""Least width of tight intervals in plots, relative to their upper ends."""


class Plot(NamedTuple):
    """A plot with its caption; if it cannot be drawn, `svg` is empty and the caption says why."""

    svg: str
    caption: str


class Pricing(NamedTuple):
    """How the plan is priced."""

    delta: float
    conversion: Conversion
    tolerance: float


Draft: TypeAlias = tuple[Callable[[], "Axes"], str]
"""A function that draws a plot, and the caption."""


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
        drafts.append((lambda: plots.worst_pair(screenings), caption))
    drafts.append(_trade_off(plan, pricing))
    return [_draw_plot(draw, caption, f"plot{number}") for number, (draw, caption) in enumerate(drafts)]


def _shares(plan: Plan, pricing: Pricing) -> Draft:
    return (
        lambda: plots.shares(plan, delta=pricing.delta, conversion=pricing.conversion),
        "Where the privacy goes. Rényi curves of releases add, so at the order that sets epsilon each has a share.",
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
    return lambda: plots.curve_against_order(curves, delta=delta, conversion=pricing.conversion), caption


def _epsilons(plan: Plan, pricing: Pricing) -> Draft:
    run, tolerance = plan.composition, max(pricing.tolerance, WIDTH)

    def draw(methods: list[str]) -> Axes:
        return plots.epsilon_against_releases(
            run, run.releases, delta=pricing.delta, methods=methods, tolerance=tolerance
        )

    return (
        lambda: _without_tight(draw, ["classic", "improved", "tight"]),
        "How epsilon grows with the number of releases, in the plan's proportions. The gap between the lines is lost "
        "in the analysis, not in the mechanism.",
    )


def _trade_off(plan: Plan, pricing: Pricing) -> Draft:
    tolerance = max(pricing.tolerance, WIDTH)

    def draw(methods: list[str]) -> Axes:
        method = "tight" if methods[-1] == "tight" else "renyi"
        return plots.trade_off(plan.composition, method=method, conversion=pricing.conversion, tolerance=tolerance)

    return (
        lambda: _without_tight(draw, [pricing.conversion, "tight"]),
        "What an attacker can do: any test that tells two neighbouring inputs apart has at least this type II "
        "error, given its type I error.",
    )


def _draw_plot(draw: Callable[[], Axes], caption: str, name: str) -> Plot:
    try:
        return Plot(_svg(draw(), name), caption)
    except (NoGuarantee, ParameterError) as error:  # such as too many releases, or no epsilon for some points
        return Plot("", f"Not drawn: {error}.")


def _without_tight(draw: Callable[[list[str]], Axes], methods: list[str]) -> Axes:
    """Draw by these methods; without the last one, tight, if it cannot price the plan."""
    try:
        return draw(methods)
    except (ProfileUnavailable, ToleranceUnreachable):
        return draw(methods[:-1])


def _svg(ax: Axes, prefix: str) -> str:
    """The figure as an SVG element with text, colours as variables, and ids that begin with `prefix`."""
    import matplotlib

    figure = ax.figure.figure
    figure.patch.set_visible(False)
    stream = io.StringIO()
    with house_style(), matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
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
