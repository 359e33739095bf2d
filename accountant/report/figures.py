"""Plots of a plan as parts of a page: SVG whose colours the page sets, in light and in dark."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from accountant import plots
from accountant.errors import NoGuarantee, ParameterError, ProfileUnavailable, ToleranceUnreachable
from accountant.plan import Plan
from accountant.plots.style import GREY, LINES, STYLE, SUBTITLE, darken, house_style
from accountant.plots.worst_pairs import has_pairs
from accountant.renyi.conversion import Conversion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Figure", "drawn"]

TOGETHER = 6
"""Curves in one plot."""


class Figure(NamedTuple):
    """A plot, and what to read off it; without a plot, why there is none."""

    svg: str
    caption: str


def drawn(plan: Plan, delta: float, conversion: Conversion, tolerance: float, shares: list[float]) -> list[Figure]:
    """The plots of a plan: shares, curves, epsilon by releases, worst counts of screenings, trade-off function."""
    run = plan.composition
    if not run.releases:
        return []
    found = [(release, share) for release, share in zip(plan.releases, shares, strict=True) if release.count]
    found.sort(key=lambda each: -each[1])
    named = {release.name: release.composition for release, _ in found[:TOGETHER]}
    whole = "whole plan" if "whole plan" not in named else "the whole plan"
    curves = named if len(found) == 1 else {whole: run, **named}
    axes: list[tuple[Callable[[], Axes], str]] = []
    if len(found) > 1:
        axes.append((
            lambda: plots.shares(plan, delta=delta, conversion=conversion),
            "Where the privacy goes. Rényi curves of releases add, so at the order that sets epsilon each has a share.",
        ))  # fmt: skip
    axes.append((
        lambda: plots.curve_against_order(curves, delta=delta or None, conversion=conversion),
        "Rényi divergence between neighbouring inputs, at most. Every order gives a valid epsilon; the marked one the "
        "smallest." + (f" The costliest {TOGETHER} releases are drawn." if len(found) > TOGETHER else ""),
    ))  # fmt: skip
    axes.append((
        lambda: _without_tight(
            lambda methods: plots.epsilon_against_releases(
                run, run.releases, delta=delta, methods=methods, tolerance=max(tolerance, 0.02)
            ),
            ["classic", "improved", "tight"],
        ),
        "How epsilon grows when fewer or all of the releases are made, in the plan's proportions. The gap between the "
        "lines is what the analysis loses, not the mechanism.",
    ))  # fmt: skip
    screenings = {release.name: release.event for release, _ in found if has_pairs(release.event)}
    if screenings:
        axes.append((
            lambda: plots.worst_pair(screenings),
            "A screening is priced at its worst neighbouring counts, and these depend on the order.",
        ))  # fmt: skip
    axes.append((
        lambda: _without_tight(
            lambda methods: plots.trade_off(
                run,
                method="tight" if methods[-1] == "tight" else "renyi",
                conversion=conversion,
                tolerance=max(tolerance, 0.02),
            ),
            [conversion, "tight"],
        ),
        "What an attacker can do: whoever wants to tell two neighbouring inputs apart errs at least that often in one "
        "way, given how often in the other.",
    ))  # fmt: skip
    return [_figure(draw, caption, f"plot{number}") for number, (draw, caption) in enumerate(axes)]


def _figure(draw: Callable[[], Axes], caption: str, name: str) -> Figure:
    try:
        return Figure(_svg(draw(), name), caption)
    except (NoGuarantee, ParameterError) as error:  # more releases than a plot takes, no epsilon for some of them
        return Figure("", f"Not drawn: {error}.")


def _without_tight(draw: Callable[[list[str]], Axes], methods: list[str]) -> Axes:
    """Draw by these methods; without the tight one where it is not to be had."""
    try:
        return draw(methods)
    except (ProfileUnavailable, ToleranceUnreachable):
        return draw(methods[:-1])


def _svg(ax: Axes, prefix: str) -> str:
    """The figure as an SVG element of an HTML page: text stays text, colours are variables, ids are its own."""
    import matplotlib

    figure = ax.figure.figure
    figure.patch.set_visible(False)
    stream = io.StringIO()
    with house_style(), matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the reader's fonts have it
        figure.savefig(stream, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(stream.getvalue())
    for parent in root.iter():
        for child in list(parent):
            # the style sheet would hold for the whole page
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    colors = _variables()
    used = set(re.findall(r"(?:url\(|href=\")#([^\")]+)", stream.getvalue()))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        for name, value in attributes.items():
            if name != "id" or value in used:
                element.set(name, _of_the_page(name, value, prefix, colors))
        used.discard(attributes.get("id", ""))  # the same path may be defined again, but not its id
    subtitle = [text.get_text() for text in ax.texts if text.get_gid() == SUBTITLE]
    label = ". ".join(" ".join(text.replace("\\$", "$").split()) for text in [ax.get_title(loc="left"), *subtitle])
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    wide = root.attrib["viewBox"].split()[2]
    root.attrib.update({"class": "plot", "style": f"--wide: {wide}", "role": "img", "aria-label": label})
    return ElementTree.tostring(root, encoding="unicode")


def _of_the_page(name: str, value: str, prefix: str, colors: dict[str, str]) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    value = value.replace("url(#", f"url(#{prefix}-")
    if name in ("style", "fill", "stroke"):
        value = re.sub(r"#[0-9a-f]{6}", lambda found: colors.get(found[0], "currentColor"), value)
        value = value.replace("'DejaVu Sans'", "var(--sans)")
    return value


def _variables() -> dict[str, str]:
    """The style sheet's variable for every colour of the house style."""
    from matplotlib.colors import to_hex

    found = {"#ffffff": "var(--paper)", GREY: "var(--faint)", STYLE["grid.color"]: "var(--rule)"}
    for number, (color, _, _) in enumerate(LINES):
        red, green, blue = darken(color)
        found[to_hex((red, green, blue))] = f"var(--label-{number})"
        found[to_hex(color)] = f"var(--line-{number})"
    # black is the text's as well
    return {**found, STYLE["axes.labelcolor"]: "currentColor", "#000000": "currentColor"}
