import importlib
import importlib.util
import math
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import accountant as ac

FOUND = importlib.util.find_spec("opacus")
EVENTS = 2250 * ac.PoissonSubsampled(ac.Gaussian(1.5), 0.04)


@pytest.fixture
def opacus(monkeypatch):
    """The accountants of an installed Opacus; where PyTorch is missing, without what Opacus imports of it."""
    if FOUND is None:
        pytest.skip("opacus is not installed")
    if importlib.util.find_spec("torch") is None:
        before = set(sys.modules)
        package, optimizers = ModuleType("opacus"), ModuleType("opacus.optimizers")
        package.__path__ = [str(Path(FOUND.origin).parent)]
        optimizers.DPOptimizer = object
        monkeypatch.setitem(sys.modules, "opacus", package)
        monkeypatch.setitem(sys.modules, "opacus.optimizers", optimizers)
    monkeypatch.delitem(sys.modules, "accountant.interop.opacus", raising=False)
    yield importlib.import_module("opacus.accountants")
    sys.modules.pop("accountant.interop.opacus", None)
    if importlib.util.find_spec("torch") is None:
        for name in set(sys.modules) - before:
            if name.startswith("opacus"):
                del sys.modules[name]


@pytest.fixture
def ours(opacus):
    module = importlib.import_module("accountant.interop.opacus")
    yield module
    opacus.registry._ACCOUNTANTS.pop("certified", None)


def test_is_an_accountant_of_opacus(opacus, ours):
    ours.register()
    ours.register()
    created = opacus.create_accountant("certified")
    assert isinstance(created, opacus.IAccountant)
    assert created.mechanism() == "certified"
    opacus.register_accountant("certified", opacus.RDPAccountant, force=True)
    with pytest.raises(ValueError, match="already registered"):
        ours.register()
    ours.register(force=True)
    assert isinstance(opacus.create_accountant("certified"), ours.Accountant)


RDP = "asserts the bound of the Rényi route, 7.329 (or noise for it); a certified interval says at most 6.7679"
PRV = "asserts the upper end of the PRV interval, 6.7774 (or noise for it), 0.01 above the same certified interval"
GDP = "asserts the limit theorem's 6.59, which is below the certified lower end: an epsilon that does not hold"
NOT_OURS = {
    "test_rdp_accountant": RDP,
    "test_accountant_load_state_dict": RDP,
    "test_get_noise_multiplier_rdp_epochs": RDP,
    "test_get_noise_multiplier_rdp_steps": RDP,
    "test_get_noise_multiplier_prv_epochs": PRV,
    "test_get_noise_multiplier_prv_steps": PRV,
    "test_prv_accountant": PRV,
    "test_gdp_accountant": GDP,
    "test_get_noise_multiplier_gdp": GDP,
    "test_get_noise_multiplier_overshoot": "asks for 100 calibrations of the Rényi accountant by its name",
}
"""Tests of Opacus that state the number of one of its own accountants; the tests below prove the reasons."""


def test_their_suite_with_our_accountant_in_place_of_theirs(opacus, ours, monkeypatch):
    import unittest

    suite = importlib.import_module("opacus.tests.accountants_test")
    for name in ("RDPAccountant", "PRVAccountant"):
        monkeypatch.setattr(suite, name, ours.Accountant)
    ran = []
    for case in (suite.AccountantRegistryTest, suite.AccountingTest):
        for name in unittest.TestLoader().getTestCaseNames(case):
            if name not in NOT_OURS:
                result = unittest.TestResult()
                case(name).run(result)
                assert result.wasSuccessful(), (name, result.failures, result.errors)
                ran.append(name)
    assert len(ran) == 5


def test_numbers_of_their_suite_against_the_certified_interval(opacus, ours):
    """Each of their accountants on the run that their tests price, and ours."""
    certified = ac.epsilon(EVENTS, 1e-5, method="tight", tolerance=1e-5)
    accountant = ours.Accountant()
    accountant.history = [(1.5, 0.04, 2250)]
    found = accountant.get_epsilon(delta=1e-5)
    theirs = {}
    for name in ("rdp", "prv", "gdp"):
        with warnings.catch_warnings(action="ignore"):  # that gdp can underestimate
            peer = opacus.create_accountant(name)
        peer.history = [(1.5, 0.04, 2250)]
        theirs[name] = peer.get_epsilon(delta=1e-5)
    assert certified.lower <= found <= certified.epsilon * (1 + 1e-9)
    assert theirs["gdp"] < certified.lower
    assert found < theirs["prv"] < theirs["rdp"]
    assert theirs["rdp"] == pytest.approx(7.32911117143)


def test_calibration_of_opacus_with_our_accountant(opacus, ours):
    utils = importlib.import_module("opacus.accountants.utils")
    ours.register()
    sigma = utils.get_noise_multiplier(
        target_epsilon=8, target_delta=1e-5, sample_rate=0.04, steps=2000, accountant="certified", tolerance=1e-3
    )
    run = 2000 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.04)
    assert 7.98 <= ac.epsilon(run, 1e-5, method="tight", tolerance=1e-3).epsilon <= 8.0
    assert sigma <= 1.2915  # by their PRV accountant; 1.3562 by their Rényi accountant


def test_steps_are_counted_and_states_restored():
    module = importlib.import_module("accountant.interop.opacus")
    accountant = module.Accountant()
    for _ in range(3):
        accountant.step(noise_multiplier=1.5, sample_rate=0.04)
    accountant.step(noise_multiplier=1.2, sample_rate=0.04)
    assert accountant.history == [(1.5, 0.04, 3), (1.2, 0.04, 1)]
    assert len(accountant) == 4
    hook = accountant.get_optimizer_hook_fn(0.02)
    hook(SimpleNamespace(noise_multiplier=1.2, accumulated_iterations=2))
    assert accountant.history[-1] == (1.2, 0.04, 2)
    state = accountant.state_dict()
    assert state["history"] == accountant.history
    assert state["history"] is not accountant.history
    again = module.Accountant()
    again.load_state_dict(state)
    assert again.run == accountant.run
    again.load_state_dict({**state, "history": iter(state["history"])})
    assert again.run == accountant.run
    mine = {"mechanism": "certified"}
    shapes = [{**mine, "history": each} for each in (None, 5, {}, "", [None], [(0.0,)], [(0.0, 0.1, None)], 3 * [1.0])]
    for wrong in ({}, None, 5, ["history", "mechanism"], {"history": []}, {"history": [], "mechanism": "rdp"}, *shapes):
        with pytest.raises(ValueError, match="accepted"):
            again.load_state_dict(wrong)
    assert again.run == accountant.run


def test_steps_whose_clipping_adapts_are_refused_and_not_counted():
    """The count of unclipped gradients, with a noise of 0.6, costs more than the credit that the noise takes for it."""
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    adaptive = SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=1, unclipped_num_std=0.6)
    with pytest.raises(ac.ParameterError, match="a clipping norm that adapts has no known price; accepted: a constant"):
        accountant.get_optimizer_hook_fn(0.02)(adaptive)
    assert len(accountant) == 0
    gradients = (adaptive.noise_multiplier**-2 - (2 * adaptive.unclipped_num_std) ** -2) ** -0.5
    spent = ac.Gaussian(gradients) + ac.Gaussian(adaptive.unclipped_num_std)
    assert ac.epsilon(spent, 1e-5).lower > 1.8 * ac.epsilon(1 * ac.Gaussian(adaptive.noise_multiplier), 1e-5).epsilon


def test_histories_are_plain_numbers_whatever_counted_them():
    """Checkpoints hold numbers of NumPy as calls of its functions, which nothing here makes."""
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    for sigma in (np.float64(1.1), 1.1, np.float32(0.5)):
        accountant.step(noise_multiplier=sigma, sample_rate=np.float64(0.1))
    assert accountant.history == [(1.1, 0.1, 2), (0.5, 0.1, 1)]
    assert {type(each) for entry in accountant.history for each in entry} == {float, int}
    accountant.history = [[np.float64(1.1), np.float64(0.1), np.int64(2)]]
    (entry,) = accountant.state_dict()["history"]
    assert type(entry) is tuple
    assert [type(each) for each in entry] == [float, float, int]


@pytest.mark.parametrize("sigma", [1.0, 0.0])
def test_deltas_out_of_range_are_refused_also_without_noise(sigma):
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    accountant.step(noise_multiplier=sigma, sample_rate=0.1)
    for delta in (math.nan, 2, None):
        with pytest.raises(ac.ParameterError, match=r"delta = .* accepted: \[0, 1\]"):
            accountant.get_epsilon(delta)


def test_bad_steps_are_refused_and_not_counted():
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    for sigma, rate in ((math.nan, 0.1), (-1.0, 0.1), (1.0, math.nan), (1.0, 1.5)):
        with pytest.raises(ac.ParameterError, match="accepted"):
            accountant.step(noise_multiplier=sigma, sample_rate=rate)
    assert accountant.history == []
    assert accountant.get_epsilon(1e-5) == 0.0
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf


@pytest.mark.parametrize(
    "history", [[(0.0,)], [None], [(0.0, "0.1", 3)], [(0.0, 0.1, None)], (1.0, 0.1, 3), None, {}, "ab"]
)
def test_a_history_of_another_shape_is_refused_by_every_reader(history):
    """It may be set by hand: what tells steps without noise looks at the entries before anything else does."""
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    accountant.history = history
    for ask in (lambda: accountant.get_epsilon(1e-5), lambda: accountant.guarantee(1e-5), lambda: accountant.run, len):
        with pytest.raises(ac.ParameterError, match=r"history|steps|rate"):
            ask(accountant) if ask is len else ask()
    accountant.history = [(1.0, 0.1, 1e4)]
    assert len(accountant) == 10_000


@pytest.mark.parametrize("columns", [([1.0, 0.8], [0.1, 0.1], [100, 100]), ([0.0], [0.1], [100])])
def test_a_history_that_is_read_only_once_is_refused(columns):
    """What looks for steps without noise would leave nothing to be priced."""
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    accountant.history = zip(*columns, strict=True)
    for ask in (lambda: accountant.get_epsilon(1e-5), lambda: accountant.guarantee(1e-5), lambda: accountant.run, len):
        with pytest.raises(ac.ParameterError, match=r"history = .* an iterator is read only once; accepted: a list of"):
            ask(accountant) if ask is len else ask()
    assert len(list(accountant.history)) == len(columns[0])


def test_rates_too_small_for_theirs():
    """1e16 steps at rate 1e-8: theirs reports 5.8216 for want of log1p, less than the run's Gaussian limit costs."""
    accountant = importlib.import_module("accountant.interop.opacus").Accountant()
    accountant.history = [(1.0, 1e-8, 10**16)]
    assert accountant.get_epsilon(1e-5) > 5.95
