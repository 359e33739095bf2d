"""Kernels that numba is told not to compile: slow, and the same numbers."""

import json
import os
import subprocess
import sys

import pytest

import accountant as ac

RUNS = """{
    "sampled": 10 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01),
    "screened": ac.NoisyScreening(5.0, 2.0, 2) + ac.Gaussian(2.0),
}"""
PRINT = f"""
import json
import accountant as ac
runs = {RUNS}
prices = {{name: ac.epsilon(run, 0.01, method="tight", tolerance=0.5) for name, run in runs.items()}}
print(json.dumps({{name: (price.lower, price.epsilon) for name, price in prices.items()}}))
"""


@pytest.mark.audit
def test_tight_prices_without_compilation():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRINT], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for name, run in eval(RUNS, {"ac": ac}).items():
        compiled = ac.epsilon(run, 0.01, method="tight", tolerance=0.5)
        assert json.loads(done.stdout)[name] == pytest.approx([compiled.lower, compiled.epsilon], rel=1e-12)
