"""Draws the pictures of the README and of the documentation into notebooks/pictures, by `accountant plot`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "notebooks" / "pictures"

PLOTS: dict[str, tuple[str, ...]] = {
    "releases": ("figure5-subsampled-screening", "--kind", "releases", "--tolerance", "0.05"),
}
"""Arguments of `accountant plot`, by the name of the picture."""

DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.93) hue-rotate(180deg) } }</style>"
"""On a dark page lightness is turned round, and hues are kept."""


def draw(name: str, folder: Path = FOLDER) -> Path:
    """Draw a picture by the command line, then take its background away and make it readable on a dark page."""
    target = folder / f"{name}.svg"
    subprocess.run([sys.executable, "-m", "accountant", "plot", *PLOTS[name], "-o", str(target)], check=True)
    text = target.read_text("utf-8").replace('style="fill: #ffffff"', 'style="fill: none"')
    opening, end, rest = text.partition(" <metadata>")
    target.write_text(f"{opening} {DARK}\n{end}{rest}", "utf-8")
    return target


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in PLOTS:
        draw(name)


if __name__ == "__main__":
    main()
