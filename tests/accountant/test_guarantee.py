"""Guarantees: what they hold, how they print, and that those which depend on private data stay private."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import re
from decimal import Decimal

import pytest

import accountant as ac
from accountant.guarantee import format_up
from accountant.numerics.exact import CURVE_ROUNDING
from accountant.testing import compositions

given = pytest.importorskip("hypothesis").given
st = pytest.importorskip("hypothesis.strategies")
settings = pytest.importorskip("hypothesis").settings

RUN = 100 * ac.Gaussian(20.0)
SECRET = 10 * ac.DataDependentScreening(85.0, 210.0, 100)


def test_fields():
    price = ac.epsilon(RUN, 1e-5, conversion="classic")
    rho, log = 100 / 800, math.log(1e5)
    assert price.epsilon == pytest.approx(rho + 2 * math.sqrt(rho * log), rel=1e-12)
    assert price.order == pytest.approx(1 + math.sqrt(log / rho), rel=1e-6)
    assert price.delta == 1e-5
    assert price.adjacency is ac.Adjacency.ADD_REMOVE
    assert (price.method, price.conversion) == ("renyi", "classic")
    assert (price.order_at_edge, price.lower, price.data_dependent) == (False, None, False)


def test_the_order_is_the_one_that_was_priced():
    price = ac.epsilon(RUN, 1e-5, conversion="classic")
    again = float(RUN.renyi(price.order)) * (1 + CURVE_ROUNDING) + math.log(1e5) / (price.order - 1)
    assert price.epsilon == pytest.approx(again, rel=1e-14)


def test_fields_cannot_be_set():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ac.epsilon(RUN, 1e-5).epsilon = 0.0


def test_numbers_are_plain_floats():
    price = ac.delta(RUN, 1, method="renyi")
    assert all(type(value) is float for value in (price.epsilon, price.delta, price.order))


def test_as_dict_is_ready_for_json():
    price = ac.epsilon(RUN, 1e-5, method="renyi")
    values = price.as_dict()
    assert json.loads(json.dumps(values)) == values
    assert list(values) == [field.name for field in dataclasses.fields(price)]
    assert values["adjacency"] == "add-remove"
    assert (values["epsilon"], values["delta"], values["order"]) == (price.epsilon, 1e-5, price.order)
    assert ac.epsilon(ac.Composition(), 1e-5).as_dict()["adjacency"] is None


def test_pickle_and_copy():
    price = ac.epsilon(RUN, 1e-5, method="renyi")
    assert pickle.loads(pickle.dumps(price)) == price
    assert copy.copy(price) == copy.deepcopy(price) == price
    assert hash(pickle.loads(pickle.dumps(price))) == hash(price)


# --- private guarantees --------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [ac.epsilon(SECRET, 1e-5), ac.delta(SECRET, 1.0), ac.epsilon(RUN + SECRET, 1e-5)])
@pytest.mark.parametrize(
    "export",
    [
        ac.Guarantee.as_dict,
        copy.copy,
        copy.deepcopy,
        *(lambda price, protocol=protocol: pickle.dumps(price, protocol) for protocol in range(6)),
        lambda price: pickle.dumps({"price": [price]}),
    ],
)
def test_data_dependent_guarantee_is_not_exported(price, export):
    assert price.data_dependent
    with pytest.raises(ac.DataDependentError, match=r"depends on private data.*does not depend on the data"):
        export(price)


def test_data_dependent_guarantee_prints_so():
    price = ac.epsilon(SECRET, 1e-5)
    assert str(price).endswith("[depends on private data: do not publish]")
    assert "data_dependent=True" in repr(price)
    assert "private data" not in str(ac.epsilon(RUN, 1e-5))


# --- printing ------------------------------------------------------------------------------------------


def test_prints_everything_that_it_holds():
    assert str(ac.epsilon(RUN, 1e-5, conversion="classic")) == (
        "(2.52427, 1e-05)-DP under add-remove adjacency (renyi, classic conversion, order 10.5971)"
    )
    assert str(ac.epsilon(ac.PureDP(0.5), 0, method="renyi")) == (
        "(0.5, 0)-DP under add-remove adjacency (renyi, improved conversion, the pure-DP limit)"
    )
    assert str(ac.epsilon(ac.PureDP(0.5), 0)) == (
        "(0.5, 0)-DP under add-remove adjacency (tight, pure-DP limit, certified from below at 0.499999)"
    )
    assert "under replace adjacency" in str(ac.epsilon(ac.Collision(1.0, 2, 8), 1e-5))
    assert "under any adjacency" in str(ac.epsilon(ac.Composition(), 1e-5))
    assert str(ac.epsilon(RUN, 1e-300, method="renyi")).split(", ")[1].startswith("1e-300)")


def test_order_at_the_edge_is_reported():
    small = ac.epsilon(ac.Gaussian(1e15), 1e-300, conversion="classic")
    assert small.order_at_edge
    assert small.order == pytest.approx(1e12, rel=1e-2) or small.order < 1e12
    assert "at the edge of the searched range" in str(small)
    large = ac.epsilon(10**30 * ac.Gaussian(1e-6), 1e-5, method="renyi")
    assert large.order_at_edge
    assert large.order == pytest.approx(1 + 1e-9, abs=1e-15)
    for price in (small, large):
        assert price.as_dict()["order_at_edge"] is True
    assert not ac.epsilon(RUN, 1e-5, method="renyi").order_at_edge
    assert not ac.epsilon(ac.PureDP(0.5), 0, method="renyi").order_at_edge


positive = st.floats(min_value=5e-324, max_value=1e300)


@settings(max_examples=500, deadline=None)
@given(positive, st.integers(1, 15))
def test_rounding_is_never_down(value, digits):
    shown = Decimal(format_up(value, digits))
    exact = Decimal(value)
    # a short decimal such as 1e-5 stands for the float nearest to it, which may lie above by rounding
    assert shown >= exact or float(shown) == value
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    assert shown <= exact + unit
    assert len(shown.normalize().as_tuple().digits) <= digits


@settings(max_examples=500, deadline=None)
@given(positive, st.integers(1, 15))
def test_what_is_shown_reads_back_as_an_upper_bound(value, digits):
    assert float(format_up(value, digits)) >= value


@settings(max_examples=60, deadline=None)
@given(compositions(), st.floats(-300, -0.5))
def test_printed_guarantee_is_an_upper_bound(run, log_delta):
    price = ac.epsilon(run, 10**log_delta, method="renyi")
    shown = re.match(r"\(([^,]+), ([^)]+)\)-DP", str(price))
    epsilon, delta = (float(text) for text in shown.groups())
    assert epsilon >= price.epsilon
    assert delta >= price.delta
    assert epsilon <= price.epsilon * (1 + 1.01e-5)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (math.inf, "inf"),
        (1.0, "1"),
        (1e-5, "1e-05"),
        (1e-300, "1e-300"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.300001"),
        (0.9527553302596046, "0.952756"),
        (math.nextafter(1.0, 2.0), "1.00001"),
        (math.nextafter(1.0, 0.0), "1"),
        (9.999999, "10"),
        (999999.5, "1e+06"),
        (1234567.0, "1.23457e+06"),
        (5e-324, "4.94066e-324"),
    ],
)
def test_rounded_up(value, shown):
    assert format_up(value) == shown


# --- compared, and read back ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["renyi", "tight"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_read_back_from_a_dict(method, delta):
    price = ac.epsilon(3 * ac.Laplace(1 / 3), delta, method=method)
    assert ac.Guarantee.from_dict(price.as_dict()) == price
    assert ac.Guarantee.from_dict(json.loads(json.dumps(price.as_dict()))) == price
    nothing = ac.epsilon(ac.Composition(), 1e-5, method="renyi")
    assert ac.Guarantee.from_dict(nothing.as_dict()) == nothing


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": -1}, r"epsilon = -1 is out of range"),
        ({"delta": 2}, r"delta = 2 is out of range"),
        ({"adjacency": "swap"}, 'accepted: "add-remove" or "replace"'),
        ({"extra": 1}, "accepted: a mapping with keys epsilon, delta"),
        ({"method": 3}, "method = 3; accepted: text"),
        ({"odometer": "no"}, "odometer = 'no'; accepted: true or false"),
        ({"epsilon": None}, "epsilon = None is not a real number"),
    ],
)
def test_wrong_dicts_are_refused(change, words):
    with pytest.raises(ac.ParameterError, match=words):
        ac.Guarantee.from_dict({**ac.epsilon(RUN, 1e-5).as_dict(), **change})
    with pytest.raises(ac.ParameterError, match="guarantee without epsilon"):
        ac.Guarantee.from_dict({"delta": 0.1, "adjacency": None, "method": "tight", "conversion": None, "order": None})


def test_order_at_one_delta():
    less, more = (ac.epsilon(count * ac.Gaussian(20.0), 1e-5, method="renyi") for count in (10, 100))
    assert less < more
    assert more > less
    assert less <= less
    assert more >= less
    assert sorted([more, less]) == [less, more]
    with pytest.raises(ac.ParameterError, match=r"1e-05 and 1e-06 have no order; accepted: one delta"):
        _ = less < ac.epsilon(RUN, 1e-6)
    with pytest.raises(ac.AdjacencyMismatch, match="protect different things"):
        _ = less < ac.epsilon(ac.Gaussian(9.0, adjacency="replace"), 1e-5)
    with pytest.raises(TypeError, match="another guarantee"):
        _ = less < 3.0


def test_implies():
    """Exactly where neither number is larger, and the relation is the same."""
    run = ac.epsilon(RUN, 1e-5, method="renyi")
    assert run.implies(run)
    for change, expected in (
        ({"epsilon": run.epsilon * 2}, True),
        ({"delta": 1e-3}, True),
        ({"delta": 1e-6}, False),
        ({"epsilon": run.epsilon / 2, "delta": 1e-3}, False),
        ({"adjacency": ac.Adjacency.REPLACE}, False),
        ({"adjacency": None}, False),
    ):
        assert run.implies(dataclasses.replace(run, **change)) is expected
    assert ac.epsilon(ac.Composition(), 1e-5).implies(run)
    assert not dataclasses.replace(run, odometer=True).implies(run)
    # what holds for these data alone says nothing about others
    secret = dataclasses.replace(run, data_dependent=True)
    assert not secret.implies(run)
    assert secret.implies(secret)
    assert run.implies(secret)


def test_every_text_of_a_private_price_says_so():
    price = ac.epsilon(SECRET, 1e-5, method="renyi")
    for text in (str(price), price.heading(), price.heading("delta"), price._repr_html_()):
        assert "depends on private data: do not publish" in text
    assert "private" not in ac.epsilon(RUN, 1e-5, method="renyi").heading()


def test_table_for_notebooks():
    price = ac.epsilon(RUN, 1e-5, method="tight")
    text = price._repr_html_()
    for words in (">epsilon<", format_up(price.epsilon), "certified from below", "add-remove", "1e-05"):
        assert words in text
    assert "do not publish" in ac.epsilon(SECRET, 1e-5)._repr_html_()
    assert "<b>" not in dataclasses.replace(price, source="<b>")._repr_html_()


def test_numbers_and_formats_are_refused_with_a_word_of_epsilon():
    price = ac.epsilon(RUN, 1e-5)
    with pytest.raises(TypeError, match=r"^2 beside a guarantee; accepted: another guarantee, or its \.epsilon$"):
        _ = price < 2
    with pytest.raises(TypeError, match=r"^format = '\.3f' of a guarantee; accepted: .* its \.epsilon"):
        f"{price:.3f}"
    assert f"{price}" == str(price)
