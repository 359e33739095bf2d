"""Broken mechanisms are flagged, their intact twins are not.

AUDIT_SEEDS=10 repeats every audit with so many seeds.
"""

import os

import pytest

import mechanisms as mx
from tests.mechanisms.audit import broken
from tests.mechanisms.audit.broken import NINE, kinds
from tests.mechanisms.audit.broken_lines import exchanged, replaced, with_lines
from tests.mechanisms.audit.broken_more import MORE

pytestmark = pytest.mark.audit

SEEDS = range(int(os.environ.get("AUDIT_SEEDS", "1")))
INTACT_SHARE = 5 if len(SEEDS) == 1 else 1
CASES = [*NINE, *MORE]


def names(cases):
    return {"argnames": "case", "argvalues": cases, "ids": [case.name for case in cases]}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(**names([case for case in CASES if case.caught]))
def test_the_broken_one_is_flagged(case, seed):
    _, promise, found = case.run(True, seed)
    assert found.confidence == 0.95
    assert float(found) > promise, f"promised {promise:.3f}; {found}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(**names(CASES))
def test_the_intact_one_is_not_flagged(case, seed, monkeypatch):
    """Whole audits of intact mechanisms stand beside this file: here that the broken line makes the difference."""
    monkeypatch.setattr(broken, "SHARE", INTACT_SHARE)
    promised, promise, found = case.run(False, seed)
    assert kinds(promised) == case.events
    assert float(found) <= promise, f"promised {promise:.3f}; {found}"


@pytest.mark.parametrize(**names([case for case in CASES if not case.caught]))
def test_what_an_audit_cannot_see_is_said_to_be_so(case, monkeypatch):
    monkeypatch.setattr(broken, "SHARE", INTACT_SHARE)
    assert case.why
    _, promise, found = case.run(True, 0)
    assert float(found) <= promise


def test_at_least_nine_and_ten():
    assert len(NINE) == 9
    assert sum(case.caught for case in MORE) >= 10
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_line_that_is_not_there_fails_aloud():
    with pytest.raises(AssertionError, match="_count_votes holds 'no such line' 0 times"):
        with_lines(mx.PrivateKNN, "_count_votes", ("no such line", ""))
    with pytest.raises(AssertionError, match="times"):
        exchanged(mx.PrivateKNN._count_votes, ("self", "other"))


def test_functions_are_put_back():
    from mechanisms import labelling

    before = labelling.noisy_argmax
    with replaced((labelling, "noisy_argmax", [("noise_of(event,", "0.5 * noise_of(event,")])):
        assert labelling.noisy_argmax is not before
    assert labelling.noisy_argmax is before
