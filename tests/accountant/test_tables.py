"""Compositions in tables: what was written is read back as it was, and plans read what plans can hold."""

import json
from dataclasses import dataclass

import pytest

import accountant as ac
from accountant.testing import example_events

REPLACE = ac.Adjacency.REPLACE

RUNS = [
    5 * ac.PoissonSubsampled(ac.GNMax(3.3), 0.1) + 7 * ac.PoissonSubsampled(ac.NoisyScreening(75.0, 180, 300), 0.1),
    500 * ac.PoissonSubsampled(ac.Gaussian(1.5, 2.0), 0.05),
    3 * ac.LNMax(20.0) + 2 * ac.GNMax(1e-3),
    1 * ac.Laplace(2.0, 1.0, 2, adjacency=REPLACE),
    2 * ac.DiscreteLaplace(2.0, adjacency=REPLACE) + 1 * ac.DiscreteGaussian(0.7, adjacency=REPLACE),
    1 * ac.RandomizedResponse(0.5, 3) + 1 * ac.GaussianDP(1.0) + 1 * ac.ZeroConcentratedDP(0.1) + 1 * ac.PureDP(1.0),
    4 * ac.Collision(1.0, nonzeros=2, buckets=12),
    2 * ac.Shuffled(1.0, 100) + 1 * ac.Shuffled(ac.Collision(1.0, nonzeros=2, buckets=12), 1000),
    2 * ac.ShuffledCounts(1.0, 2.0, 0.5, 2),
    ac.Composition(),
]


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_what_was_written_is_read_back(run):
    tables = json.loads(json.dumps(ac.composition_to_tables(run)))
    assert ac.composition_from_tables(tables) == run


@pytest.mark.parametrize("run", RUNS[:7], ids=str)
def test_plans_read_the_tables(run):
    tables = ac.composition_to_tables(run)
    for table in tables:
        alone = {key: value for key, value in table.items() if key != "adjacency"}
        found = ac.Plan.from_tables("mine", {"adjacency": table["adjacency"], "release": [alone]})
        assert found.composition in [count * event for event, count in run]


@pytest.mark.parametrize("event", example_events(), ids=repr)
def test_every_example_is_read_back(event):
    tables = json.loads(json.dumps(ac.composition_to_tables(3 * event)))
    assert ac.composition_from_tables(tables) == 3 * event


SHUFFLED = """
[[release]]
event = "shuffled"
n = 1000
local = { event = "collision", epsilon = 1, nonzeros = 2, buckets = 12 }

[[release]]
event = "shuffled"
n = 100
local = 0.5
count = 3

[[release]]
event = "shuffled-counts"
scale = 4
shape = 30
ratio = 0.9
"""


def test_plans_hold_rounds_of_the_shuffle_model(tmp_path):
    path = tmp_path / "rounds.toml"
    path.write_text(SHUFFLED)
    run = ac.load_plan(path).composition
    local = ac.Collision(1.0, nonzeros=2, buckets=12)
    assert run == ac.Shuffled(local, 1000) + 3 * ac.Shuffled(0.5, 100) + ac.ShuffledCounts(4.0, 30.0, 0.9)


@pytest.mark.parametrize(
    ("local", "words"),
    [
        ('{ event = "gausian" }', ["release 1: local", "'gausian'", "did you mean 'gaussian'?"]),
        ('{ event = "collision", epsilon = 1 }', ["release 1: local", "nonzeros, buckets missing"]),
        ('{ event = "pure-dp", epsilon = 1, count = 3 }', ["release 1: local", "unknown key 'count'"]),
        ('{ event = "gaussian", sigma = 1 }', ["release 1", "local = Gaussian", "accepted: an epsilon"]),
        ("[1]", ["release 1", "local = [1]"]),
    ],
)
def test_mistakes_in_an_event_within_an_event(tmp_path, local, words):
    path = tmp_path / "rounds.toml"
    path.write_text(f'[[release]]\nevent = "shuffled"\nn = 1000\nlocal = {local}\n')
    with pytest.raises(ac.PlanError) as caught:
        ac.load_plan(path)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@dataclass(frozen=True)
class Own(ac.Event):
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return orders


def test_events_without_a_name_are_refused():
    with pytest.raises(ac.ParameterError, match="has no name in plans"):
        ac.composition_to_tables(1 * Own())


@pytest.mark.parametrize(
    "table",
    [
        {},
        3,
        {"event": "gausian", "sigma": 1},
        {"event": "gaussian", "sigma": -1},
        {"event": "gaussian", "sigma": 1, "adjacency": "none"},
        {"event": "shuffled", "local": 1.0},
        {"event": "shuffled", "local": {"event": "gaussian"}, "n": 3},
        {"event": "shuffled", "local": 1.0, "n": 10, "more": 1},
        {"event": "gaussian", "sigma": 1, "adjacency": "add-remove", "count": -1},
    ],
    ids=str,
)
def test_other_tables_are_refused(table):
    with pytest.raises(ac.AccountantError):
        ac.composition_from_tables([table])


def test_tables_within_tables_end():
    table = {"event": "pure-dp", "epsilon": 1.0}
    for _ in range(3000):
        table = {"event": "shuffled", "n": 10, "local": table}
    with pytest.raises(ac.PlanError, match="tables within tables; accepted: at most 8 deep"):
        ac.composition_from_tables([table])
