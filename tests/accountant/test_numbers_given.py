"""Orders, epsilons, deltas and words that are none: one clear line, as for parameters of events."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac

EVENT = ac.Laplace(1.0)

NO_NUMBERS = [
    True,
    "2",
    b"2",
    [True, 2.0],
    ["3"],
    np.array([True]),
    np.bool_(True),
    Decimal(2),
    [Decimal(2), 3.0],
    None,
    [None, 2.0],
]
NO_NUMBERS += [2j, [[1, 2], [3]], np.array(["2"]), {}, np.datetime64("2020-01-01")]

ASKED = {
    "order": EVENT.renyi,
    "order of a run": (2 * EVENT).renyi,
    "epsilon": EVENT.profile,
    "epsilons": lambda value: ac.curve(EVENT, value),
    "epsilon of a delta": lambda value: ac.delta(EVENT, value),
    "delta": lambda value: ac.epsilon(EVENT, value),
    "fpr": lambda value: ac.true_positive_rate(EVENT, value),
}


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", ASKED)
def test_what_is_no_number_is_refused(name, value):
    with pytest.raises(ac.ParameterError) as refusal:
        ASKED[name](value)
    said = str(refusal.value)
    assert said.startswith(f"{name.removesuffix('s').split(' of ')[0] if 'of a delta' not in name else 'epsilon'} = ")
    assert "; accepted: " in said
    assert "\n" not in said
    assert "nan" not in said


@pytest.mark.parametrize(
    "value",
    [2, 2.5, np.float32(2), np.int8(2), Fraction(5, 2), [Fraction(5, 2), 3], (2, 3), range(2, 5), [np.ones(2)], []],
)
def test_numbers_of_every_kind_are_accepted(value):
    expected = np.array(np.array(value, dtype=object), dtype=float)
    np.testing.assert_array_equal(EVENT.renyi(value), EVENT.renyi(expected))


WORDS = {
    "method": lambda value: ac.epsilon(EVENT, 1e-5, method=value),
    "conversion": lambda value: ac.epsilon(EVENT, 1e-5, conversion=value),
    "direction": lambda value: ac.true_positive_rate(EVENT, 0.1, direction=value),
    "threshold_noise": lambda value: ac.SparseVector(1.0, 1.0, threshold_noise=value),
    "noise": lambda value: ac.TreeAggregation(1.0, 3, noise=value),
    "entries": ac.Composition,
}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("value", [np.ones(3), np.array(1.0)], ids=repr)
def test_an_array_is_no_word(name, value):
    with pytest.raises(ac.ParameterError, match=f"^(entry|{name} = ).*; accepted: "):
        WORDS[name](value)


FAR_OUT = [
    ac.DataDependentScreening(1e-6, 98516856.42, 453),
    ac.Group(ac.NoisyScreening(1e-6, 98516856.42, 453), 2),
    ac.DiscreteGaussian(1e-50, 1, 258),
    ac.PoissonSubsampled(ac.Laplace(1e-50), 0.1),
    ac.Laplace(1e-50, 1e50),
    2 * ac.GNMax(1e-50) + ac.Laplace(1.0),
    *ac.MixtureOfGaussians.examples(),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("event", FAR_OUT, ids=str)
def test_no_curve_leaves_its_limit_or_warns(event):
    curve = event.renyi([2.0, 1e10, 1e100, 1e300, 1.7e308, np.inf])
    assert (np.diff(curve[np.isfinite(curve)]) >= -1e-12 * curve[np.isfinite(curve)][1:]).all()
    assert (curve <= curve[-1]).all()
