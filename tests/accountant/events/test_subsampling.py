"""The sum behind the generic subsampling bound against all of its terms, also where all but a few are negligible."""

import math

import mpmath as mp
import numpy as np
import pytest

from accountant.events.subsampling import log_binomial_excess

GROWTHS = {  # the largest term is in the middle, at the last count, at both ends and at the first
    "pure": lambda j: (j - 1) * 0.7,
    "zcdp": lambda j: 0.3 * j * (j - 1),
    "both ends": lambda j: 0.0007 * j * (j - 1),
    "flat": lambda j: 1e-9 * (j - 1),
    "infinite": lambda j: np.where(j > 2, math.inf, 1.0),
    "nothing": lambda j: np.full_like(j, -math.inf),
}


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.999])
@pytest.mark.parametrize("n", [2, 3, 1500])
@pytest.mark.parametrize("growth", GROWTHS)
def test_no_term_that_counts_is_left_out(growth, n, rate):
    j = np.arange(n + 2, dtype=float)
    logs = GROWTHS[growth](j)
    with mp.workdps(30):
        g, h = mp.mpf(rate), 1 - mp.mpf(rate)
        odds, term, whole = g / h, h**n, mp.mpf(0)
        for i in range(n + 1):
            whole += term * mp.exp(mp.mpf(logs[i])) if i >= 2 and logs[i] > -math.inf else 0
            term *= mp.mpf(n - i) / (i + 1) * odds
        expected = float(mp.log(whole)) if whole else -math.inf
    found = log_binomial_excess(n, logs, j * np.log(np.maximum(j, 1.0)), rate)
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-13)
