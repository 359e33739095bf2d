"""Numbers in messages stay the bounds that they are."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accountant as ac
from accountant.errors import ToleranceUnreachable
from accountant.numerics.decimals import format_down, format_exact, format_up

ENDS = st.floats(1e-300, 1e300)


@given(ENDS, st.integers(1, 9))
def test_rounded_outward(value, digits):
    low, high = Fraction(format_down(value, digits)), Fraction(format_up(value, digits))
    noise = Fraction(value) * Fraction(1, 10**15)  # a float next to a short decimal is that decimal
    assert low - noise <= Fraction(value) <= high + noise
    assert high - low <= Fraction(10) ** (math.floor(math.log10(value)) - digits + 2)


def test_limits():
    assert format_up(0.0) == format_down(0.0) == "0"
    assert format_up(math.inf) == "inf"
    assert (format_down(0.1), format_up(0.1)) == ("0.1", "0.1")


def refusal(lower, upper, wide):
    error = ToleranceUnreachable("no price")
    error.found, error.wide = (lower, upper), wide
    return str(error)


def test_a_refusal_rounds_its_ends_outward():
    said = refusal(3.9553246273306915, 3.9752006304831067, "0.01")
    assert "certified so far: [3.95532, 3.97521], 0.5 % wide" in said


@given(ENDS, st.floats(0.0, 1.0))
def test_what_a_refusal_says_holds_what_is_certified(upper, share):
    lower = share * upper
    low, high = refusal(lower, upper, "").partition("[")[2].partition("]")[0].split(", ")
    assert Fraction(low) <= Fraction(lower) * (1 + Fraction(1, 10**15))
    assert Fraction(high) >= Fraction(upper) * (1 - Fraction(1, 10**15))


def test_a_delta_that_is_named_as_too_small_is():
    with pytest.raises(ac.NoGuarantee, match=r"accepted: above 0\.000123457, the probability") as refused:
        ac.epsilon(ac.ApproximateDP(1.0, 1.2345678e-4), 1e-6)
    named = float(str(refused.value).partition("above ")[2].partition(",")[0])
    assert ac.epsilon(ac.ApproximateDP(1.0, 1.2345678e-4), named).epsilon <= 1.0


@pytest.mark.parametrize("value", [0.0, 1e-5, 20.0, 13.333333333333334, 1 / 3, 1e300, 5e-324, 123456.0, 1234567.0])
def test_what_is_given_is_not_rounded(value):
    assert float(format_exact(value)) == value
    assert len(format_exact(1e-5)) == 5
