"""How many queries a budget pays for: one more would cost too much."""

import math

import pytest

import accountant as ac
import mechanisms as mx

DELTA = 1e-5
LABELLERS = [
    mx.PrivateKNN(100, 0.2, screening_sigma=None, vote_sigma=12.0),
    mx.PrivateKNN(100, 0.2, screening_sigma=40.0, vote_sigma=12.0, max_labels=50),
    mx.GNMax(50, 20.0, screening_sigma=60.0),
    mx.LNMax(50, 30.0),
]


@pytest.mark.parametrize("labeller", LABELLERS, ids=repr)
def test_one_more_query_costs_too_much(labeller):
    count = mx.affordable_queries(labeller, 1.0, DELTA)
    assert count > 1
    for asked, within in ((count, True), (count + 1, False)):
        votes = min(asked, labeller.max_labels or math.inf) * labeller.vote_event
        run = votes if labeller.screening_event is None else asked * labeller.screening_event + votes
        assert (ac.epsilon(run, DELTA, method="renyi").epsilon <= 1.0) == within
    assert mx.affordable_queries(labeller, 2.0, DELTA) > count
    assert mx.affordable_queries(labeller, 1.0, DELTA, most=count - 1) == count - 1
    assert mx.affordable_queries(labeller, 1e-9, DELTA) == 0
    assert not hasattr(labeller, "spent_")


def test_the_count_follows_from_the_closed_form():
    """GNMax votes are Gaussian with squared sensitivity 2: n of them have the curve n a / sigma^2."""
    for sigma in (10.0, 40.0):
        count = mx.affordable_queries(mx.GNMax(50, sigma), 1.0, DELTA)
        rho = [n / sigma**2 for n in (count, count + 1)]
        prices = [ac.epsilon(ac.Composition([(ac.ZeroConcentratedDP(each), 1)]), DELTA, method="renyi") for each in rho]
        assert prices[0].epsilon <= 1.0 < prices[1].epsilon


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((mx.ReverseKNN(), 1.0, DELTA), "labeller"),
        ((LABELLERS[0], 0.0, DELTA), "epsilon = 0.0"),
        ((LABELLERS[0], math.nan, DELTA), "epsilon = nan"),
        ((LABELLERS[0], 1.0, -0.1), "delta"),
        ((LABELLERS[0], 1.0, DELTA, -1), "most = -1"),
    ],
)
def test_bad_input_is_refused(given, named):
    with pytest.raises(ac.ParameterError, match=named):
        mx.affordable_queries(*given)
