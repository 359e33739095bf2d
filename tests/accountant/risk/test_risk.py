"""True-positive rates, advantage, Bayes risk, precision and mu against closed forms and definitions."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import accountant as ac

RATES = np.array([1e-300, 1e-12, 1e-8, 1e-5, 1e-3, 0.05, 0.3, 0.5, 0.9])


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.5, 1.0, 5.0, 30.0])
def test_gaussian(mu):
    truth = ndtr(mu + ndtri(RATES))
    found = ac.true_positive_rate(ac.GaussianDP(mu), RATES)
    assert (found.lower <= truth * (1 + 1e-11)).all()
    assert (truth <= found.upper * (1 + 1e-11)).all()
    np.testing.assert_allclose(found.lower, truth, rtol=1e-7)
    np.testing.assert_allclose(found.upper, truth, rtol=1e-7)
