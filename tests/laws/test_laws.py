"""All events keep all laws; and every law bites."""

import math
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.testing import (
    LAWS,
    LawBroken,
    broken_laws,
    check_event,
    compositions,
    events,
    example_events,
    laws_for,
    orders,
)
from tests.cases import audit_after
from tests.laws.table import EVENTS
from tests.laws.wrong import WRONG, CheapCurve, Warns


def others_of_a_kind_last(events):
    """The first event of every class, and of every class within it, and how many these are; then all others."""
    kinds = {(type(each), type(getattr(each, "event", getattr(each, "local", None)))): each for each in events[::-1]}
    first = [each for each in events if any(each is kept for kept in kinds.values())]
    return len(first), first + [each for each in events if not any(each is kept for kept in first)]


@pytest.mark.parametrize("examples", audit_after(1, [2, 12]))
@pytest.mark.parametrize("event", audit_after(*others_of_a_kind_last(EVENTS)), ids=repr)
def test_event_keeps_every_law(event, examples):
    check_event(event, max_examples=examples)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law_bites(law):
    event = WRONG[law.name]
    assert law.applies(event)
    failures = broken_laws(event, max_examples=100, laws=[law])
    assert failures, f"no input broke {law.name}"
    (failure,) = failures
    # it says which law, where, and by how much
    assert failure.excess > 0 or math.isnan(failure.excess)
    assert any(word in failure.where for word in ("order", "epsilon", "rate", "adding", "copies"))


class BesideChords(ac.Laplace):
    """Laplace noise of many coordinates, its sampled curve wrong by a share that is less than chords are wide."""

    share = 1.0

    def _subsampled_curve(self, rate, orders):
        return self.share * super()._subsampled_curve(rate, orders)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_curves_that_are_chords_keep_the_law_and_wrong_ones_do_not(scale, monkeypatch):
    """At 17 coordinates and more sampled curves are exact at whole orders only, half a percent above between them."""
    (law,) = (law for law in LAWS if law.name == "curve recovered from the profile")
    sampled = ac.PoissonSubsampled(BesideChords(scale, coordinates=20), 0.5)
    assert broken_laws(sampled, max_examples=8, laws=[law]) == []
    for share in (0.99, 1.001):
        monkeypatch.setattr(BesideChords, "share", share)
        assert broken_laws(sampled, max_examples=8, laws=[law])


@pytest.mark.parametrize("sigma", [1e-3, 1e-2, 0.3])
def test_screenings_with_hardly_any_noise_keep_every_law(sigma):
    """The worst pair may be one of probability e^-12500000, whose loss ends a narrow peak of the integral."""
    check_event(ac.NoisyScreening(sigma, 20.0, 40), max_examples=4)


def test_every_law_has_a_wrong_event():
    assert set(WRONG) == {law.name for law in LAWS}


def test_check_event_reports_all_that_broke():
    with pytest.raises(LawBroken, match=r"curve recovered .* by [0-9.e-]+ \(") as caught:
        check_event(CheapCurve(2.0), max_examples=20)
    assert caught.value.law == "curve recovered from the profile"


@pytest.mark.parametrize("name", ["one number for every order", "two arrays for a profile"])
def test_a_wrong_form_is_named_first_and_in_few_words(name, recwarn):
    """What follows from it is not reported as if other laws had failed; warnings of the event's code are few."""
    some = [law for law in LAWS if law.name in (name, "non-negative", "profile duality")]
    failures = broken_laws(WRONG[name], max_examples=10, laws=some)
    assert failures[0].law == name
    assert "_log_profile returned one array of shape (3,); accepted: a pair" in str(failures[0]) or "order" in name
    rest = [failure for failure in failures[1:] if failure.where == "evaluation"]
    assert rest
    for failure in rest:
        assert f"not to be told, as {name!r} is broken" in str(failure)
    assert not recwarn
    warned = [note for note in failures[0].__notes__ if "Warning" in note]
    assert len(warned) == (1 if "order" in name else 0)


def test_warnings_of_an_event_that_keeps_its_laws_are_passed_on_once():
    with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
        assert broken_laws(Warns(), max_examples=5) == []
    assert len(caught) == 1


def test_example_events_cover_every_event_of_plans():
    from accountant.plan import EVENTS as BY_NAME

    kinds = {type(event) for event in example_events()}
    assert kinds == {*BY_NAME.values(), ac.PoissonSubsampled}


def test_laws_for_skips_what_does_not_apply():
    names = {law.name for law in laws_for(ac.DataDependentGNMax(40, [200, 40]))}
    assert "profile duality" not in names
    assert "subsampled <= unsubsampled" not in names
    assert "non-negative" in names


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(event=events(), order=orders())
def test_random_events_have_finite_curves(event, order):
    curve = float(event.renyi(order))
    assert 0 <= curve < math.inf
    assert curve <= float(event.renyi(math.inf)) * (1 + 1e-9)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(run=compositions(), order=orders(1e4), exponent=st.floats(-12, -1))
def test_random_compositions_are_priced_consistently(run, order, exponent):
    total = sum(count * float(event.renyi(order)) for event, count in run)
    assert float(run.renyi(order)) == pytest.approx(total, rel=1e-12)
    delta = 10**exponent
    optimal, improved, classic = (
        ac.epsilon(run, delta, conversion=conversion).epsilon for conversion in ("optimal", "improved", "classic")
    )
    assert 0 <= optimal <= improved <= classic
    if improved > 0:
        back = ac.delta(run, improved, method="renyi")
        # what is relative to epsilon is multiplied by the order on its way to delta: the divergence is rounded up by
        # 2^-50, and two operations round
        rounding = 1.4e-15 * max(improved, 1.0) * min(back.order, 1e15)
        assert back.delta <= delta * (1 + 1e-9 + rounding)


def test_missing_hypothesis_is_one_clear_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ac.MissingExtra, match=r"knn-accountant\[testing\]"):
        check_event(ac.Gaussian(1.0))


def test_the_same_inputs_every_time():
    seen = []
    for _ in range(2):
        failures = broken_laws(CheapCurve(2.0), max_examples=10)
        seen.append([(failure.law, failure.where, failure.excess) for failure in failures])
    assert seen[0] == seen[1]
    assert seen[0]


def test_family_integrals_only_bound_the_curve():
    """For screening the profile is a supremum over counts: its integral is strictly above the curve."""
    from accountant.events.subsampling import integrate_profile

    event = ac.NoisyScreening(2.0, 30, 50)
    assert integrate_profile(event, 3.0, tolerance=1e-9) > event.renyi(3.0) * 1.01
