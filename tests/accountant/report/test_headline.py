"""What the top of the page says are bounds, however small what they bound is."""

import math
import re
from fractions import Fraction

import pytest
from mpmath import mp

import accountant as ac
from accountant.plan import Plan
from accountant.report.headline import attack_figures, ceil_percent, floor_percent, statement


def plan_of(epsilon):
    return Plan.from_tables("plan", {"release": [{"event": "pure-dp", "epsilon": epsilon}]})


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-16, 1e-5, 0.1, math.log(2), 1.0, 3.97, 100.0, 699.9])
def test_the_factor_of_the_sentence_is_above_what_epsilon_says(epsilon):
    plan = plan_of(epsilon)
    factor = float(re.search("at most (.*) times as likely", statement(plan, ac.epsilon(plan.run, 0.0)))[1])
    with mp.workdps(400):
        exact = mp.exp(mp.mpf(epsilon))
        assert exact <= mp.mpf(factor) <= 1.0011 * exact


def test_what_costs_nothing_changes_nothing():
    plan = plan_of(0.0)
    assert "at most 1 times as likely" in statement(plan, ac.epsilon(plan.run, 0.0))


@pytest.mark.parametrize("above", [1e-18, 5e-14, 1e-12])
def test_percentages_are_bounds(above):
    for tenths in range(1001):
        share = tenths / 1000
        assert ceil_percent(share) == floor_percent(share) == f"{tenths / 10:g} %"
        near = min(share + above, 1.0)
        shown = [Fraction(text(near).removesuffix(" %")) / 100 for text in (floor_percent, ceil_percent)]
        assert shown[0] <= Fraction(repr(near)) <= shown[1]


@pytest.mark.parametrize("epsilon", [1e-30, 1e-17, 1e-3])
def test_a_guess_is_right_more_often_than_without_the_run(epsilon):
    found = dict(attack_figures(1 * ac.PureDP(epsilon), 0.01).rows)
    assert found["a guess between two equally likely cases is right, at most"] == "50.1 % of the time"
