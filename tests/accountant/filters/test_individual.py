"""Individual budgets: exact sums, refusals, and what a budget is worth."""

import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant import IndividualFilter
from tests.cases import audit_after, in_child

# delta = 1e-5
BUDGETS = [
    (0.5, "renyi", 0.008506),
    (1.0, "renyi", 0.030557),
    (2.0, "renyi", 0.108256),
    (0.5, "gdp", 0.010112),
    (1.0, "gdp", 0.035926),
    (2.0, "gdp", 0.125777),
]


@pytest.mark.parametrize(("epsilon", "conversion", "budget"), BUDGETS)
def test_budget_for_a_target(epsilon, conversion, budget):
    found = IndividualFilter.budget_for(epsilon, 1e-5, conversion)
    assert found == pytest.approx(budget, abs=6e-7)
    price = IndividualFilter(found).guarantee(1e-5, conversion)
    assert epsilon * (1 - 1e-5) < price.epsilon <= epsilon
    assert price.method == ("tight" if conversion == "gdp" else "renyi")


def test_gdp_is_exact():
    # a Gaussian mechanism with sigma 3.73... is (1, 1e-5)-DP: section 11
    mu = 1 / 3.730631634815942
    assert IndividualFilter(mu**2 / 2).guarantee(1e-5).epsilon == pytest.approx(1.0, rel=1e-6)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    budget=st.floats(1e-6, 1e6),
    charges=st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), max_size=60),
)
def test_totals_never_exceed_the_budget(budget, charges):
    """Whatever is asked, what was granted sums to no more than B, in exact arithmetic, and nothing is negative."""
    budgets, totals = IndividualFilter(budget, 4), [Fraction(0)] * 4
    for shares in charges:
        amounts = np.array(shares) * budget / 3
        rows = np.flatnonzero(budgets.covers(amounts))
        budgets.charge(rows, amounts[rows])
        for row in rows:
            totals[row] += Fraction(float(amounts[row]))
        assert (budgets.left >= 0).all()
        assert (budgets.remaining <= budget).all()
    for row in range(4):
        assert totals[row] + Fraction(int(budgets.left[row]), budgets.UNITS) * Fraction(budget) <= Fraction(budget)


def test_float_sums_would_drift_and_these_do_not():
    budgets = IndividualFilter(1.0, 1)
    while budgets.covers(0.1)[0]:
        budgets.charge([0], 0.1)
    # Fraction(0.1) is above 1/10, so that ten do not fit; a float sum grants eleven
    assert budgets.remaining[0] == pytest.approx(0.1, rel=1e-12)


@pytest.mark.audit
@pytest.mark.parametrize("charge", audit_after(3, [0.1, 12345.678, 2.0**-40, 1.0, 3e-7]))
def test_equal_shares_fit(charge):
    """All charges whose exact sum is the budget are granted, and nothing after them."""
    for count in range(1, 200):
        budget = math.fsum([charge] * count)
        whole = Fraction(charge) * count
        budgets = IndividualFilter(budget, 1)
        for _ in range(count - 1):
            budgets.charge([0], charge)
        assert budgets.covers(charge)[0] == (whole <= Fraction(budget)), count
        if whole <= Fraction(budget):
            budgets.charge([0], charge)
            assert not budgets.covers(charge)[0]


def test_the_whole_budget_is_covered_once():
    budgets = IndividualFilter(0.3, 2)
    assert budgets.covers(0.3).all()
    budgets.charge([1], 0.3)
    assert budgets.remaining.tolist() == [0.3, 0.0]
    assert not budgets.covers(math.nextafter(0.3, 1))[0]


def test_refused_charges_leave_everything_as_it_was():
    budgets = IndividualFilter(0.1, 3)
    budgets.charge([1], 0.06)
    with pytest.raises(ac.BudgetExceeded, match=r"charge = 0\.05 for row 1; accepted: up to the 0\.04 that"):
        budgets.charge([0, 1, 2], 0.05)
    assert budgets.remaining == pytest.approx([0.1, 0.04, 0.1])
    with pytest.raises(ac.BudgetExceeded):
        budgets.charge([0], math.inf)
    with pytest.raises(ac.BudgetExceeded):
        budgets.charge([0], 1e308)


def test_rows_come_and_go():
    budgets = IndividualFilter(1.0, 2)
    budgets.charge([0], 0.25)
    spent = budgets.UNITS - budgets.left[0]
    budgets.retire([0])
    assert budgets.remaining.tolist() == [0.0, 1.0]
    budgets.admit([3, 0], [0, spent])
    assert budgets.remaining == pytest.approx([0.75, 1.0, 0.0, 1.0])
    with pytest.raises(ac.ParameterError, match="spent"):
        budgets.admit([0], budgets.UNITS + 1)
    budgets.admit([], [])
    assert len(budgets.left) == 4


@pytest.mark.parametrize("rows", [[0, 0], [-1], [2], [0.5], [[0]], [True]])
def test_bad_rows(rows):
    budgets = IndividualFilter(1.0, 2)
    with pytest.raises(ac.ParameterError, match="rows"):
        budgets.charge(rows, 0.1)
    assert budgets.remaining.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("amount", [-1e-9, math.nan, -math.inf])
def test_bad_amounts(amount):
    with pytest.raises(ac.ParameterError, match="charge = "):
        IndividualFilter(1.0, 2).charge([0], amount)


def test_negative_units():
    with pytest.raises(ac.ParameterError, match="-1 units"):
        IndividualFilter(1.0, 2).spend([0], -1)


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan, math.inf, "much"])
def test_bad_budgets(budget):
    with pytest.raises(ac.ParameterError, match="budget"):
        IndividualFilter(budget)


def test_bad_conversion():
    with pytest.raises(ac.ParameterError, match="accepted: gdp, renyi"):
        IndividualFilter(1.0).guarantee(1e-5, "classic")
    with pytest.raises(ac.ParameterError, match="accepted: gdp, renyi"):
        IndividualFilter.budget_for(1.0, 1e-5, "exact")


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int8])
def test_a_row_that_is_named_twice_is_refused_whatever_integers_name_it(kind):
    budgets = IndividualFilter(1.0, 5)
    rows = np.array([3, 2, 3], kind)  # differences of unsigned integers are never negative
    for call in (lambda: budgets.charge(rows, 0.5), lambda: budgets.retire(rows), lambda: budgets.admit(rows)):
        with pytest.raises(ac.ParameterError, match="every row once"):
            call()
    assert budgets.remaining.tolist() == [1.0] * 5


@pytest.mark.parametrize("units", [0.5, [1.9, 1.0], math.nan, True, "1", None, 2**63, np.uint64(2**63), [[1], [2]]])
def test_units_are_integers(units):
    """To cut off what is behind the point would charge less than was asked."""
    budgets = IndividualFilter(1.0, 2)
    for call in (lambda: budgets.spend([0, 1], units), lambda: budgets.admit([0, 1], units)):
        with pytest.raises(ac.ParameterError, match="accepted"):
            call()
    assert budgets.remaining.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("amounts", ["1", 1j, True, [0.1, 0.2, 0.3], [[0.1, 0.2]], [[0.1], [0.2]]])
def test_amounts_are_one_number_or_one_for_each_row(amounts):
    budgets = IndividualFilter(1.0, 2)
    with pytest.raises(ac.ParameterError, match="charge"):
        budgets.charge([0, 1], amounts)
    with pytest.raises(ac.ParameterError, match="charge"):
        budgets.covers(amounts)
    assert budgets.remaining.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rows", ["a", None, [[0], [1, 2]], [-1], [2**40]])
def test_rows_that_cannot_be_admitted(rows):
    with pytest.raises(ac.ParameterError, match="rows = "):
        IndividualFilter(1.0, 2).admit(rows)


def test_rows_that_do_not_fit_into_memory():
    """Of a numpy MemoryError nobody learns what is accepted."""
    for size in (2**40, 2.0**40):
        with pytest.raises(
            ac.ParameterError, match=r"size = 1099511627776.*: .* into memory; accepted: up to about \d"
        ):
            IndividualFilter(1.0, size)
    budgets = IndividualFilter(1.0, 2)
    budgets.charge([0], 0.25)
    with pytest.raises(ac.ParameterError, match=r"rows = \[1, 1099511627775\]: .* into memory; accepted: up to about"):
        budgets.admit([1, 2**40 - 1], budgets.UNITS)
    assert budgets.remaining.tolist() == [0.75, 1.0]
    budgets.admit([3, 1])
    assert budgets.remaining.tolist() == [0.75, 1.0, 0.0, 1.0]


def test_the_largest_and_the_least_budget_have_a_price():
    assert IndividualFilter(1e-100).guarantee(1e-5).epsilon == 0.0
    assert IndividualFilter(1e99).guarantee(1e-5).epsilon == pytest.approx(1e99)
    with pytest.raises(ac.BudgetExceeded, match=r"charge above 0\.5 for row 0; accepted: up to the 0\.5"):
        IndividualFilter(0.5, 1).charge([0], math.inf)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reads_and_spends_nothing():
    budgets = IndividualFilter(1.0, 2)
    budgets.charge([0], 0.25)
    assert "in the memory of process" in in_child(lambda: budgets.charge([0], 0.25))
    assert in_child(lambda: budgets.remaining.tolist()) == "[0.75, 1.0]"
    assert in_child(lambda: IndividualFilter(1.0, 2).charge([0], 0.25)) == "None"
    budgets.charge([0], 0.75)


def test_copies_are_refused():
    for keep in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ac.FilterError, match=r"accepted: one that is made anew"):
            keep(IndividualFilter(1.0, 2))
