"""How plots look, what they say about themselves, and how they are written to a file."""

from __future__ import annotations

import os
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accountant.adjacency import Adjacency
from accountant.errors import AdjacencyMismatch, DataDependentError, MissingExtra, ParameterError
from accountant.numerics.kernel import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "FORMATS",
    "GREY",
    "adjacency_of",
    "canvas",
    "checked_output",
    "headline",
    "label_lines",
    "log_scale",
    "mark_private",
    "need_matplotlib",
    "plain",
    "save",
    "style",
    "taken",
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
"""Colours that the colour-blind tell apart (Okabe & Ito 2008), each with dashes and a marker that tell it in grey."""

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
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a file is the same everywhere
    "font.size": 9.5,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.dash_capstyle": "butt",
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "lines.scale_dashes": True,
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
    """The given axes, or new ones of a figure that size in inches, in the house style; no display is needed.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    if ax is not None:
        yield ax
        return
    with _house_style():
        from matplotlib.figure import Figure

        yield Figure(figsize=size, layout="constrained").subplots()


def need_matplotlib() -> None:
    """Raise MissingExtra where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib is not installed; accepted: pip install 'knn-accountant[plots]'") from None


@contextmanager
def _house_style() -> Iterator[None]:
    """Settings of ours alone, whatever the user's are; theirs come back afterwards."""
    need_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def style(index: int) -> dict[str, Any]:
    """Colour, dashes and marker of line number `index`, no two of which share any.

    Raises
    ------
    ParameterError
        There are not so many.
    """
    if index >= len(LINES):
        raise ParameterError(f"line {index + 1} of a plot; accepted: at most {len(LINES)}, more are not told apart")
    color, dashes, marker = LINES[index]
    return {"color": color, "linestyle": dashes, "marker": marker}


def taken(ax: Axes) -> int:
    """Number of named lines that the axes hold."""
    return sum(not str(line.get_label()).startswith("_") for line in ax.get_lines())


def adjacency_of(all_of: Sequence[Adjacency | None]) -> str:
    """What kind of neighbours everything in the plot is about."""
    found = sorted({str(each) for each in all_of if each is not None})
    if len(found) > 1:
        raise AdjacencyMismatch(f"cannot show {' and '.join(found)} in one plot: they protect different things")
    return f"{found[0] if found else 'any'} adjacency"


def headline(ax: Axes, title: str, says: str) -> None:
    """Title, and below it what the numbers hold for.

    Raises
    ------
    ParameterError
        The axes already hold lines for which something else was said.
    """
    for text in ax.texts:
        if text.get_gid() == SUBTITLE:
            said = " ".join(text.get_text().split())
            if said != says:
                raise ParameterError(f"ax says {said!r}, this plot {says!r}; accepted: axes of their own for each")
            return
    points = ax.bbox.width * 72 / ax.figure.dpi
    lines = textwrap.wrap(says, max(int(points / 3.8), 20))
    ax.set_title(plain(title, 80), loc="left", pad=8.0 + 13.0 * len(lines))
    _note(ax, "\n".join(lines), (0.0, 1.0), (0.0, 7.0), SUBTITLE, GREY)


def plain(text: str, most: int = 36) -> str:
    """The text as it is where matplotlib would read dollars as mathematics; a long one without its middle."""
    if len(text) > most:
        text = f"{text[: most - most // 3 - 1]}…{text[len(text) - most // 3 :]}"
    return text.replace("$", r"\$")


def log_scale(axis: Axis) -> None:
    """A logarithmic axis with plain numbers on it, and enough of them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ends = axis.get_view_interval()
    few = ends[0] > 0 and ends[1] < 300 * ends[0]
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def mark_private(ax: Axes) -> None:
    """Say below the axes that they show private numbers; `save` looks for it."""
    if not is_private(ax):
        _note(ax, PRIVATE_NOTE, (0.0, 0.0), (0.0, -46.0), PRIVATE, "#9c3d00")


def is_private(ax: Axes) -> bool:
    """Whether the axes show private numbers."""
    return any(text.get_gid() == PRIVATE for text in ax.texts)


def _note(ax: Axes, text: str, place: tuple[float, float], moved: tuple[float, float], gid: str, color: str) -> None:
    note = ax.annotate(
        text, place, moved, xycoords="axes fraction", textcoords="offset points", color=color, fontsize="small"
    )
    note.set(annotation_clip=False, gid=gid, linespacing=1.35)


def label_lines(ax: Axes) -> None:
    """Write every named line's name beside its right end, apart from each other; again after more lines came."""
    for text in list(ax.texts):
        if text.get_gid() == DIRECT_LABEL:
            text.remove()
    ax.get_xlim(), ax.get_ylim()  # limits are found when asked for
    ends = []
    for line in ax.get_lines():
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        seen = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if seen.size and not str(line.get_label()).startswith("_"):
            ends.append((line, (ax.transScale + ax.transLimits).transform((x[seen[-1]], y[seen[-1]]))))
    ends.sort(key=lambda end: float(end[1][1]))
    gap = 14.0 / (ax.bbox.height * 72 / ax.figure.dpi)
    heights = _apart(np.array([float(place[1]) for _, place in ends]), gap)
    for (line, place), height in zip(ends, heights.tolist(), strict=True):
        leader = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0}
        text = ax.annotate(
            str(line.get_label()),
            tuple(place),
            (1.03, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=_darker(line.get_color()),
            va="center",
            arrowprops={**leader, "relpos": (0.0, 0.5)},
        )
        text.set(annotation_clip=False, gid=DIRECT_LABEL)


def _apart(heights: FloatArray, gap: float) -> FloatArray:
    """Rising heights moved as little as possible to be a gap apart: isotonic regression by pooling neighbours."""
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


def _darker(color: Any) -> tuple[float, ...]:
    """The colour, dark enough to be read as small text on white."""
    from matplotlib.colors import to_rgb

    return tuple(0.62 * part for part in to_rgb(color))


# --- files ---------------------------------------------------------------------------------------------


def checked_output(path: str | Path) -> Path:
    """The path of a picture that can be written, or ParameterError."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise ParameterError(f"output {str(path)!r}; accepted: a file ending in {', '.join(FORMATS)}")
    if target.is_dir() or not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise ParameterError(f"output {str(path)!r}; accepted: a file in an existing directory that can be written")
    return target


def save(ax: Axes, path: str | Path, *, public_votes: bool = False) -> None:
    """Write the figure that the axes belong to: the whole picture, or nothing.

    The same plot gives the same bytes with the same version of matplotlib.

    Parameters
    ----------
    ax : Axes
    path : path
        Ends in .svg, .png or .pdf.
    public_votes : bool
        The data that a data-dependent cost was computed from are public or made up: write it nevertheless.

    Raises
    ------
    DataDependentError
        The figure shows numbers that depend on private data.
    ParameterError
        The file cannot be written, or its ending is none of these.
    """
    target = checked_output(path)
    figure = ax.figure.figure  # the whole one, where ax is in a part
    if any(is_private(each) for each in figure.axes) and not public_votes:
        raise DataDependentError(
            "this plot shows costs that depend on private data; accepted: data-independent ones, or public votes, "
            "said so with public_votes=True (--public-votes)"
        )
    kind = target.suffix[1:]
    about: dict[str, Any] = {"Title": ax.get_title(loc="left")}
    about |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    partial = target.with_name(f".{target.name}.partial")
    try:
        with _house_style(), open(partial, "wb") as stream, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # boxes stand for them
            figure.savefig(stream, format=kind, dpi=160, facecolor="white", metadata=about)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise ParameterError(f"output {str(path)!r}: {error.strerror}; accepted: a file that can be written") from None
    finally:
        with suppress(FileNotFoundError):
            os.remove(partial)
