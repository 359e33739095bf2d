"""Claim: a first price, with nothing compiled yet, takes up to half a minute of one core: a run compiles what it needs.

Every row is a fresh process with an empty cache: the processor time of importing the library, and of the first call.
Then another fresh process makes the same call with the cache that the first one has left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent

CALLS = {
    "Gaussian": "ac.epsilon(ac.Gaussian(1.0), 1e-5)",
    "Laplace": "ac.epsilon(ac.Laplace(1.0), 1e-5)",
    "1000 Laplace": "ac.epsilon(1000 * ac.Laplace(20.0), 1e-5)",
    "1000 sampled Gaussians": "ac.epsilon(1000 * sampled(1.0), 1e-5)",
    "1000 sampled Gaussians, Rényi": "ac.epsilon(1000 * sampled(1.0), 1e-5, method='renyi')",
    "delta of 1000 sampled Gaussians": "ac.delta(1000 * sampled(1.0), 1.0)",
    "noise for 1000 sampled Gaussians": "ac.calibrate(lambda s: 1000 * sampled(s), epsilon=1.0, delta=1e-5)",
    "sweep of 100 settings": "ac.sweep(lambda s: 1000 * sampled(s), {'s': [*range(1, 101)]}, delta=1e-5)",
    "1000 screenings, Rényi": "ac.epsilon(1000 * ac.NoisyScreening(85, 210, 300), 1e-5, method='renyi')",
    "1000 screenings": "ac.epsilon(1000 * ac.NoisyScreening(85, 210, 300), 1e-5)",
    "Private-kNN on MNIST": "ac.epsilon(ac.load_plan('private-knn-mnist').composition, 1e-5)",
    "1000 votes of PATE": "ac.epsilon(1000 * ac.GNMax(40.0), 1e-5)",
    "accountant epsilon --help": "main(['epsilon', '--help'])",
}

PROCESS = """
import contextlib, io, json, sys, time
before = time.process_time()
import accountant as ac
from accountant.cli.command import main
imported = time.process_time()
def sampled(sigma):
    return ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    {call}
print(json.dumps({{"import": imported - before, "call": time.process_time() - imported}}))
"""


def in_fresh_process(call: str, cache: str) -> dict[str, float]:
    """Processor seconds of the import and of one call, with compiled functions in that directory."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ACCOUNTANT_CACHE_DIR": cache}
    command = [sys.executable, "-W", "ignore", "-c", PROCESS.format(call=call)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(result.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CALLS), default=list(CALLS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures = {}
    print(f"{'processor seconds':34s}{'nothing compiled':>18s}{'compiled before':>18s}{'of which import':>18s}")
    start = time.perf_counter()
    for name in options.only:
        with TemporaryDirectory() as cache:
            first, later = (in_fresh_process(CALLS[name], cache) for _ in range(2))
        row = {"first": sum(first.values()), "later": sum(later.values()), "import": later["import"]}
        figures[name] = row
        print(f"{name:34s}{row['first']:18.2f}{row['later']:18.2f}{row['import']:18.2f}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
