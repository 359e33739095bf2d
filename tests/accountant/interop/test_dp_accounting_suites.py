"""The peer's own tests of accountants, run from its installed package on ours."""

import unittest

import pytest

pytest.importorskip("dp_accounting")

from dp_accounting import privacy_accountant, privacy_accountant_test
from dp_accounting.pld import pld_privacy_accountant, pld_privacy_accountant_test

from accountant.interop.dp_accounting import Accountant

WITHOUT_PRICE = (
    "test_additive_noise_mechanisms_with_zero_noise_multiplier5",
    "test_composition_errors_for_neighboring_relation4",
    "test_mixture_of_gaussians_basic",
    "test_poisson_subsampling_with_zero_probability4",
    "test_poisson_subsampling_with_zero_probability5",
    "test_randomized_response0",
    "test_randomized_response1",
    "test_randomized_response2",
    "test_supports_randomized_response_replace_one",
    "test_supports_randomized_response_replace_special",
    "test_supports_subsampled_gaussian_and_rr_composition0",
    "test_supports_subsampled_gaussian_and_rr_composition1",
    "test_truncated_subsampled_gaussian_basic",
)
WRONG = dict.fromkeys(WITHOUT_PRICE, "needs an event that has no price here, and is refused")
"""Tests of theirs that are not run, and why."""


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
