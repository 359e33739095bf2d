"""Checks certificates on random runs: ``python -m tests.soak --count 100000``; see ``--help``."""

import argparse
import sys
from pathlib import Path

from tests.soak.runs import SHARES, Counts, check_numbers, load_progress, save_progress

PART = 250
"""Runs after which progress is kept."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many runs there are in all")
    parser.add_argument("--start", type=int, default=0, help="the number of the first")
    parser.add_argument("--kind", choices=sorted(SHARES), help="all as runs of that kind")
    parser.add_argument("--only", type=int, help="one run, by its number")
    parser.add_argument("--seconds", type=float, default=20.0, help="when a run counts as slow and is given up")
    parser.add_argument("--progress", type=Path, help="a file from which a run that was stopped goes on")
    options = parser.parse_args()
    if options.only is not None:
        return check_numbers([options.only], Counts(), options.seconds, options.kind).report()
    counts, done = load_progress(options.progress, options.start)
    while done < options.start + options.count:
        following = min(done + PART, options.start + options.count)
        check_numbers(range(done, following), counts, options.seconds, options.kind)
        done = following
        save_progress(options.progress, counts, options.start, done)
        print(f"{done - options.start} of {options.count}: {counts}", file=sys.stderr, flush=True)
    return counts.report()


if __name__ == "__main__":
    sys.exit(main())
