"""Compare the figures of the last run with the accepted ones, and print those that changed by more than a tenth.

`make bench` writes the figures of every script to build/bench; `--accept` replaces those in accepted.json by them.
Ratios to a peer in the same run are the most reliable: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ACCEPTED = Path(__file__).parent / "accepted.json"
CHANGE = 0.1


def leaves(figures: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number with its path; members of lists by their name, if they have one."""
    if isinstance(figures, dict):
        for key, value in figures.items():
            yield from leaves(value, f"{path} / {key}" if path else key)
    elif isinstance(figures, list):
        for i, value in enumerate(figures):
            names = ("workload", "contender", "name", "model") if isinstance(value, dict) else ()
            words = [str(value[key]) for key in names if key in value]
            yield from leaves(value, f"{path} / {' '.join(words or [str(i)])}")
    elif isinstance(figures, int | float) and not isinstance(figures, bool):
        yield path, float(figures)


def changes(accepted: Any, now: Any) -> list[tuple[str, float | None, float | None]]:
    """(path, accepted, now) for figures that differ by more than a tenth, or of which one is missing."""
    before, after = dict(leaves(accepted)), dict(leaves(now))
    found = []
    for place in sorted({*before, *after}):
        old, new = before.get(place), after.get(place)
        if old is None or new is None or abs(new - old) > CHANGE * abs(old):
            found.append((place, old, new))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=Path, help="directory of NAME.json, one for every script")
    parser.add_argument("--accept", action="store_true", help="keep these figures as the accepted ones")
    options = parser.parse_args()
    now = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(options.figures.glob("*.json"))}
    accepted = json.loads(ACCEPTED.read_text("utf-8")) if ACCEPTED.exists() else {}
    for name, figures in now.items():
        differing = changes(accepted.get(name, {}), figures)
        print(f"{name}: {len(differing)} of {len(dict(leaves(figures)))} figures changed by more than a tenth")
        for place, old, new in differing if name in accepted else []:
            old_text, new_text = ("none" if value is None else f"{value:.6g}" for value in (old, new))
            print(f"  {place}: {old_text} -> {new_text}")
    if options.accept:
        ACCEPTED.write_text(json.dumps({**accepted, **now}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
