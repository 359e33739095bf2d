import json
import math

import pytest

import accountant as ac
from accountant.interop.histories import import_state

pytest.importorskip("flwr")

from flwr import serverapp
from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, SamplingMethod

from accountant.interop.flower import Accountant

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
POISSON = PrivacyConfig(1e-5, 1000, ADD, SamplingMethod.POISSON, max_epsilon=3.0)
FIXED = PrivacyConfig(1e-5, 1000, REPLACE, SamplingMethod.WITHOUT_REPLACEMENT)
ALL = PrivacyConfig(1e-5, 1000, ADD, SamplingMethod.NO_AMPLIFICATION)
ROUND = GaussianPrivacyEvent(1.0, 10, 1000)


def test_has_all_that_the_protocol_asks_for():
    protocol = serverapp.PrivacyAccountant
    for name in (name for name in vars(protocol) if not name.startswith("_")):
        assert hasattr(Accountant(POISSON), name), name


@pytest.mark.parametrize(
    ("config", "event"),
    [
        (POISSON, ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)),
        (ALL, ac.Gaussian(1.0)),
        (FIXED, ac.ClippedSum(1.0, adjacency="replace")),
    ],
)
def test_rounds_become_releases(config, event):
    accountant = Accountant(config)
    accountant.compose(ROUND, 7)
    assert accountant.run == 7 * event
    assert accountant.num_releases == 7
    assert accountant.get_epsilon(1e-5) == pytest.approx(
        ac.epsilon(7 * event, 1e-5, method="tight", tolerance=1e-5).epsilon, rel=1e-5
    )
    assert accountant.get_delta(0.5) == pytest.approx(
        ac.delta(7 * event, 0.5, method="tight", tolerance=1e-3).delta, rel=2e-3
    )


def test_costs_less_than_flowers_own():
    ours, theirs = Accountant(POISSON), serverapp.RdpAccountant(POISSON)
    for accountant in (ours, theirs):
        accountant.compose(ROUND, 200)
    spent, peer = ours.get_privacy_spent(), theirs.get_privacy_spent()
    assert ours.guarantee().lower <= spent.epsilon < peer.epsilon
    assert (spent.delta, spent.num_releases, spent.accounting_method) == (1e-5, 200, "certified")


def test_limits_are_checked_and_nothing_is_composed():
    accountant = Accountant(POISSON)
    accountant.compose(ROUND, 100)
    assert not accountant.would_exceed(ROUND)
    assert accountant.would_exceed(ROUND, count=100_000)
    assert accountant.would_exceed(ROUND, max_epsilon=0.01)
    assert accountant.num_releases == 100
    with pytest.raises(ValueError, match="max_epsilon"):
        Accountant(ALL).would_exceed(ROUND)


def test_states_are_restored_ours_and_flowers(tmp_path):
    ours, theirs = Accountant(POISSON), serverapp.RdpAccountant(POISSON)
    for accountant in (ours, theirs):
        accountant.compose(ROUND, 3)
        accountant.compose(GaussianPrivacyEvent(2.0, 20, 1000), 4)
        again = Accountant(POISSON)
        again.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
        assert again.run == ours.run
        assert again.num_releases == 7
        path = tmp_path / "state.json"
        path.write_text(json.dumps(accountant.state_dict()))
        plan = import_state(path)
        assert plan.run == ours.run
        assert plan.delta == 1e-5
    fixed = Accountant(FIXED)
    fixed.compose(ROUND, 2)
    path.write_text(json.dumps(fixed.state_dict()))
    assert import_state(path).run == fixed.run


def test_other_states_are_refused_and_change_nothing():
    accountant = Accountant(POISSON)
    accountant.compose(ROUND)
    state = accountant.state_dict()
    wrong = [
        {},
        {**state, "schema_version": 2},
        {**state, "config": Accountant(ALL).state_dict()["config"]},
        {**state, "compositions": [{"event": {"noise_multiplier": -1.0, "sample_size": 1, "population_size": 1000}}]},
        {**state, "compositions": [{"event": state["compositions"][0]["event"], "count": 0}]},
        {**state, "compositions": 3},
        {**state, "compositions": {}},
        {**state, "compositions": ""},
    ]
    for each in wrong:
        with pytest.raises(ValueError, match="accepted"):
            accountant.load_state_dict(each)
    assert accountant.num_releases == 1
    accountant.compose(ROUND, 2.0)
    assert repr(accountant.num_releases) == "3"


@pytest.mark.parametrize(
    "call",
    [
        lambda accountant: accountant.compose(ROUND, 0),
        lambda accountant: accountant.compose(ROUND, -3),
        lambda accountant: accountant.compose(GaussianPrivacyEvent(1.0, 10, 500)),
        lambda accountant: accountant.compose("round"),
        lambda accountant: accountant.get_epsilon(math.nan),
        lambda accountant: accountant.get_epsilon(0.0),
        lambda accountant: accountant.get_delta(-1.0),
        lambda accountant: Accountant("config"),
    ],
)
def test_bad_values_are_refused_and_not_composed(call):
    accountant = Accountant(POISSON)
    with pytest.raises(ValueError, match="accepted"):
        call(accountant)
    assert accountant.num_releases == 0
