"""Cases of a test of which some are dear, calls that a test counts, and calls in a forked child."""

import os

import pytest

import accountant as ac


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


def in_child(work):
    """What it returns, or the text of what it raises, in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = work()
        except ac.AccountantError as error:
            found = error
        finally:
            os.write(write, str(found).encode())
            os._exit(0)
    os.waitpid(child, 0)
    found = os.read(read, 10_000).decode()
    os.close(read)
    os.close(write)
    return found
