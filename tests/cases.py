"""Cases of a test of which some are dear, and calls that a test counts."""

import pytest


def audit_after(kept, cases):
    """All cases, those after the first `kept` as audits: the ones before them hold the test in every run.

    A case that is a tuple holds the values of several arguments.
    """
    return [
        pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.audit if place >= kept else ())
        for place, case in enumerate(cases)
    ]


def count_calls(monkeypatch, module, name):
    """Arguments of the calls of a function of a module, which still does what it did."""
    calls, plain = [], getattr(module, name)

    def call(*args):
        calls.append(args)
        return plain(*args)

    monkeypatch.setattr(module, name, call)
    return calls
