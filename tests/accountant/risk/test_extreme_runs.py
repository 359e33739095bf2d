"""Attack risks of runs that hide next to nothing, or next to everything."""

import warnings

import pytest

import accountant as ac


@pytest.mark.parametrize(
    "run",
    [
        3 * ac.SampledWithReplacement(ac.GaussianDP(0.053, adjacency="replace"), 21, 1),
        23 * ac.ShuffledEpoch(ac.Gaussian(0.094), 3221),
        1 * ac.ShuffledEpoch(ac.Gaussian(0.072, 73.7, adjacency="replace"), 2077),
    ],
)
def test_between_bounds_whose_price_suggests_no_tilt(run):
    """Grids were so coarse that the exponential of a step was no float."""
    gain, risk = ac.advantage(run), ac.bayes_risk(run)
    for share in (1e-7, 1e-3, 0.1):
        rate = ac.true_positive_rate(run, share)
        assert rate.lower <= rate.upper <= 1.0
        assert rate.lower <= share + gain.upper
    assert 0.0 <= gain.lower <= gain.upper <= 1.0
    assert gain.upper >= ac.delta(run, 0.0).lower
    assert gain.lower <= ac.delta(run, 0.0).delta
    assert risk.lower <= (1 - gain.lower) / 2
    assert risk.upper >= (1 - gain.upper) / 2


def test_games_of_losses_next_to_nothing():
    run = 2 * ac.ReportNoisyMax(1.6e28, "gumbel", 96.0, adjacency="replace")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gain, rate = ac.advantage(run), ac.true_positive_rate(run, 1e-3)
    assert 0.0 <= gain.lower <= gain.upper < 1e-20
    assert rate.lower <= 1e-3 <= rate.upper
