"""The peer's own tests of accountants, run from its installed package on ours."""

import unittest

import pytest

pytest.importorskip("dp_accounting")

from dp_accounting import privacy_accountant, privacy_accountant_test
from dp_accounting.pld import pld_privacy_accountant, pld_privacy_accountant_test

from accountant.interop.dp_accounting import Accountant

WRONG: dict[str, str] = {}
"""Tests of theirs that assert a wrong value, with the proof."""


def names(suite):
    return sorted(name for name in dir(suite) if name.startswith("test"))


class Contract(privacy_accountant_test.PrivacyAccountantTest):
    __unittest_skip__ = False

    def _make_test_accountants(self):
        return [Accountant(relation) for relation in privacy_accountant.NeighboringRelation]


@pytest.mark.parametrize("name", names(Contract))
def test_contract_of_all_accountants(name):
    run(Contract, name)


@pytest.mark.parametrize("name", names(pld_privacy_accountant_test.PldPrivacyAccountantTest))
def test_pld_accountant(name, monkeypatch):
    if name in WRONG:
        pytest.skip(WRONG[name])
    monkeypatch.setattr(pld_privacy_accountant, "PLDAccountant", Accountant)
    run(pld_privacy_accountant_test.PldPrivacyAccountantTest, name)


def run(suite, name):
    result = unittest.TestResult()
    suite(name).run(result)
    problems = [text for _, text in result.errors + result.failures]
    assert result.testsRun == 1
    assert not result.skipped
    assert not problems, problems[0]
