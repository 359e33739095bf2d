"""Compositions in tables: what was written is read back as it was, and plans read what plans can hold."""

import json
from dataclasses import dataclass

import pytest

import accountant as ac
from accountant import plan
from mechanisms.experiment.written import NAMES, SHUFFLED, composition_of, tables_of

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
    tables = json.loads(json.dumps(tables_of(run)))
    assert composition_of(tables) == run


@pytest.mark.parametrize("run", RUNS[:7], ids=str)
def test_plans_read_the_tables(run):
    tables = tables_of(run)
    for table in tables:
        alone = {key: value for key, value in table.items() if key != "adjacency"}
        found = ac.Plan.from_tables("mine", {"adjacency": table["adjacency"], "release": [alone]})
        assert found.composition in [count * event for event, count in run]


def test_names_are_those_of_plans():
    private = {name for name, kind in plan.EVENTS.items() if kind.__name__.startswith("DataDependent")}
    known = {name: kind for name, kind in plan.EVENTS.items() if name not in private}
    assert {name: kind for kind, name in {**NAMES, **SHUFFLED}.items() if name in known} == known


@dataclass(frozen=True)
class Own(ac.Event):
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return orders


def test_events_without_a_name_are_refused():
    with pytest.raises(ac.ParameterError, match="cannot be written down; accepted: gaussian"):
        tables_of(1 * Own())


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
        composition_of([table])
