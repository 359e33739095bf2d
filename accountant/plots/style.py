"""How plots look, what they say about themselves, and how they are written to a file."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import AdjacencyMismatch, DataDependentError, MissingExtra, ParameterError
from accountant.files import check_output, open_whole
from accountant.numerics.kernel import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.lines import Line2D

__all__ = [
    "FORMATS",
    "GREY",
    "adjacency_of",
    "canvas",
    "count_lines",
    "darken",
    "headline",
    "house_style",
    "label_lines",
    "legend_below",
    "log_scale",
    "mark_private",
    "need_matplotlib",
    "plain",
    "retitle",
    "save",
    "style",
    "write_legend",
]

FORMATS = (".svg", ".png", ".pdf")
"""Endings of files that `save` writes."""

GREY = "#595959"

LINES: tuple[tuple[str, Any, str], ...] = (
    ("#0072B2", "-", "o"),
    ("#D55E00", (0, (6, 1.6)), "s"),
    ("#009E73", (0, (1.2, 1.2)), "^"),
    ("#CC79A7", (0, (6, 1.6, 1.2, 1.6)), "D"),
    ("#000000", (0, (3, 1.2)), "v"),
    ("#E69F00", (0, (10, 2)), "P"),
    ("#56B4E9", (0, (6, 1.6, 1.2, 1.6, 1.2, 1.6)), "X"),
)
"""Colours that remain distinct in colour blindness (Okabe & Ito 2008), each with its own dashes and marker."""

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelcolor": "#262626",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # is part of matplotlib, so files are the same on every machine
    "font.size": 9.5,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.dash_capstyle": "butt",
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "lines.scale_dashes": True,
    "pdf.fonttype": 42,  # text in files stays text: it is found, selected and read aloud
    "svg.fonttype": "none",
    "svg.hashsalt": "accountant",
    "xtick.color": GREY,
    "ytick.color": GREY,
}

PRIVATE = "data-dependent"
SUBTITLE = "subtitle"
DIRECT_LABEL = "direct-label"

PRIVATE_NOTE = "* computed from private data, so private itself: not to be published unless those data are public"


@contextmanager
def canvas(ax: Axes | None, size: tuple[float, float] = (7.6, 4.4)) -> Iterator[Axes]:
    """The given axes, or new axes in the style of this package; `size` is in inches, and no display is needed.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    if ax is not None:
        yield ax
        return
    with house_style():
        from matplotlib.figure import Figure

        yield Figure(figsize=size, layout="constrained").subplots()


def need_matplotlib() -> None:
    """Raise MissingExtra where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib is not installed; accepted: pip install 'knn-accountant[plots]'") from None


@contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's defaults with `STYLE`; the user's own settings are restored afterwards."""
    need_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def style(index: int) -> dict[str, Any]:
    """Colour, dashes and marker of line number `index`; no two lines share any of the three.

    Raises
    ------
    ParameterError
        `index` is not below the number of styles.
    """
    if index >= len(LINES):
        raise ParameterError(f"line {index + 1} of a plot; accepted: at most {len(LINES)}, which can be told apart")
    color, dashes, marker = LINES[index]
    return {"color": color, "linestyle": dashes, "marker": marker}


def count_lines(ax: Axes) -> int:
    """Number of lines with a label in the axes."""
    return sum(not str(line.get_label()).startswith("_") for line in ax.get_lines())


def adjacency_of(adjacencies: Sequence[Adjacency | None]) -> str:
    """The one adjacency of all runs in a plot, in words; AdjacencyMismatch if they have several."""
    found = sorted({str(each) for each in adjacencies if each is not None})
    if len(found) > 1:
        raise AdjacencyMismatch(f"cannot show {' and '.join(found)} in one plot: they protect different things")
    return f"{found[0] if found else 'any'} adjacency"


def headline(ax: Axes, title: str, says: str) -> None:
    """Write the title, and below it the conditions under which the numbers hold (`says`).

    Raises
    ------
    ParameterError
        The axes already have another subtitle.
    """
    for text in ax.texts:
        if text.get_gid() == SUBTITLE:
            said = " ".join(text.get_text().split())
            if said != says:
                raise ParameterError(f"ax says {said!r}, this plot {says!r}; accepted: axes of their own for each")
            return
    points = ax.bbox.width * 72 / ax.figure.dpi
    lines = textwrap.wrap(says, max(int(points / 4.4), 20))
    titles = textwrap.wrap(plain(title, 110), max(int(points / 7.2), 20))
    ax.set_title("\n".join(titles), loc="left", pad=8.0 + 13.0 * len(lines))
    _note(ax, "\n".join(lines), (0.0, 1.0), (0.0, 7.0), SUBTITLE, GREY)


def retitle(ax: Axes, title: str) -> None:
    """Another title above the same conditions."""
    says = next(" ".join(text.get_text().split()) for text in ax.texts if text.get_gid() == SUBTITLE)
    for text in list(ax.texts):
        if text.get_gid() == SUBTITLE:
            text.remove()
    headline(ax, title, says)


def plain(text: str, most: int = 36) -> str:
    """The text with dollars escaped, which matplotlib would read as mathematics; a long text loses its middle."""
    if len(text) > most:
        text = f"{text[: most - most // 3 - 1]}…{text[len(text) - most // 3 :]}"
    return text.replace("$", r"\$")


def log_scale(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers: at 1, 2, 5 per decade if it spans few decades."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ends = axis.get_view_interval()
    few = ends[0] > 0 and ends[1] < 300 * ends[0]
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def mark_private(ax: Axes) -> None:
    """Note below the axes that they show private numbers; `save` looks for this note."""
    if not is_private(ax):
        _note(ax, PRIVATE_NOTE, (0.0, 0.0), (0.0, -46.0), PRIVATE, "#9c3d00")


def is_private(ax: Axes) -> bool:
    """Whether the axes have the note of `mark_private`."""
    return any(text.get_gid() == PRIVATE for text in ax.texts)


def _note(ax: Axes, text: str, place: tuple[float, float], moved: tuple[float, float], gid: str, color: str) -> None:
    note = ax.annotate(
        text, place, moved, xycoords="axes fraction", textcoords="offset points", color=color, fontsize="small"
    )
    note.set(annotation_clip=False, gid=gid, linespacing=1.35)


def label_lines(ax: Axes) -> None:
    """Write the label of every line beside its right end, without overlaps; call it again after adding lines."""
    for text in list(ax.texts):
        if text.get_gid() == DIRECT_LABEL:
            text.remove()
    ax.get_xlim(), ax.get_ylim()  # makes matplotlib compute the limits, which transLimits needs
    ends = []
    for line in ax.get_lines():
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        seen = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if seen.size and not str(line.get_label()).startswith("_"):
            ends.append((line, (ax.transScale + ax.transLimits).transform((x[seen[-1]], y[seen[-1]]))))
    ends.sort(key=lambda end: float(end[1][1]))
    gap = 14.0 / (ax.bbox.height * 72 / ax.figure.dpi)
    heights = _spread(np.array([float(place[1]) for _, place in ends]), gap)
    for (line, place), height in zip(ends, heights.tolist(), strict=True):
        leader = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0}
        text = ax.annotate(
            str(line.get_label()),
            tuple(place),
            (1.03, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=darken(line.get_color()),
            va="center",
            arrowprops={**leader, "relpos": (0.0, 0.5)},
        )
        text.set(annotation_clip=False, gid=DIRECT_LABEL)


def legend_below(ax: Axes) -> None:
    """A legend under the axes in place of labels beside lines: for narrow figures; it covers no data."""
    for text in list(ax.texts):
        if text.get_gid() == DIRECT_LABEL:
            text.remove()
    lines = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    if lines:
        write_legend(ax, lines)


def write_legend(ax: Axes, lines: Sequence[Line2D]) -> None:
    """A legend of the lines, under the axes' label."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.figure.figure
    under = ax.transAxes + ScaledTranslation(0.0, -36 / 72, figure.dpi_scale_trans)
    ax.legend(handles=lines, frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.0), bbox_transform=under,
              handlelength=4, borderaxespad=0.0, borderpad=0.0)  # fmt: skip


def _spread(heights: FloatArray, gap: float) -> FloatArray:
    """Move increasing heights as little as possible (least squares) so that neighbours are at least `gap` apart.

    That is isotonic regression of ``heights[i] - i * gap``, by pooling adjacent violators.
    """
    steps = gap * np.arange(heights.size)
    pools: list[list[float]] = []  # sum and number of members
    for value in (heights - steps).tolist():
        pools.append([value, 1.0])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, members = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += members
    pooled: FloatArray = np.array([total / members for total, members in pools for _ in range(int(members))])
    return pooled + steps


def darken(color: Any) -> tuple[float, ...]:
    """The colour, dark enough for small text on white."""
    from matplotlib.colors import to_rgb

    return tuple(0.62 * part for part in to_rgb(color))


# --- files ---------------------------------------------------------------------------------------------


def save(ax: Axes, path: str | Path, *, public_votes: bool = False, replace: bool = True) -> None:
    """Write the figure that the axes belong to, wholly or not at all.

    The same plot gives the same bytes with the same version of matplotlib.

    Parameters
    ----------
    ax : Axes
    path : path
        Ends in .svg, .png or .pdf.
    public_votes : bool
        The votes behind a data-dependent cost are public or made up: write the file nevertheless.
    replace : bool
        Whether a file that is there is replaced.

    Raises
    ------
    DataDependentError
        The figure shows numbers that depend on private data.
    ParameterError
        The file cannot be written, or may not be replaced, or its ending is none of these.
    """
    target = check_output(path, FORMATS)
    figure = ax.figure.figure  # the whole figure, also if the axes are in a subfigure
    if any(is_private(each) for each in figure.axes) and not public_votes:
        raise DataDependentError(
            "this plot shows costs that depend on private data; accepted: data-independent costs, or public votes "
            "with public_votes=True (--public-votes)"
        )
    kind = target.suffix[1:]
    about: dict[str, Any] = {"Title": ax.get_title(loc="left")}
    about |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with open_whole(target, replace=replace) as stream, house_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # matplotlib draws a box for an unknown character
        figure.savefig(stream, format=kind, dpi=160, facecolor="white", metadata=about)
