"""Draws the pictures of the README and of the documentation into notebooks/pictures, by `accountant plot`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "notebooks" / "pictures"

PLOTS: dict[str, tuple[str, ...]] = {
    "releases": ("figure5-subsampled-screening", "--kind", "releases", "--tolerance", "0.05"),
    "worst-pair": ("figure5-screening", "--kind", "worst-pair"),
    "shares": ("private-knn-cifar10", "--kind", "shares"),
    "trade-off": ("dp-sgd", "--kind", "trade-off"),
}
"""Arguments of `accountant plot`, by the name of the picture."""


def draw(name: str, folder: Path = FOLDER) -> Path:
    """Draw a picture by the command line."""
    target = folder / f"{name}.svg"
    subprocess.run([sys.executable, "-m", "accountant", "plot", *PLOTS[name], "-o", str(target)], check=True)
    return target


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in PLOTS:
        draw(name)


if __name__ == "__main__":
    main()
