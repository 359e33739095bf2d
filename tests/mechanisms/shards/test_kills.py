"""Whatever is killed, no charge is lost and none is doubled, and every query is answered once."""

import os
import signal

import numpy as np
import pytest

import mechanisms as mx
from mechanisms.shards import nearest
from tests.mechanisms.budgets.test_budgets import server  # noqa: F401
from tests.mechanisms.children import end_of
from tests.mechanisms.shards.kills import new_database, run_over_kills
from tests.mechanisms.shards.tables import CUTS, QUERIES, X, Y, cut, private_knn

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

KILLS = int(os.environ.get("SHARD_KILLS", 4))


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("separate", [False, True], ids=["local", "separate"])
def test_workers_that_are_killed_lose_and_double_nothing(tmp_path, separate):
    kills, runs, _ = run_over_kills(tmp_path, KILLS, separate)
    assert kills >= KILLS
    assert runs >= 1


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_workers_that_are_killed_while_they_charge_in_postgresql(tmp_path, server):  # noqa: F811
    url, _ = server
    kills, runs, _ = run_over_kills(tmp_path, KILLS, True, lambda: new_database(url))
    assert kills >= KILLS
    assert runs >= 1


def killed_child(path, stop, _):
    """Labels in a process that is killed after so many answers."""

    def kill(done):
        if done == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    nearest.PASS = 8
    with dask.config.set(scheduler="synchronous"), mx.Journal(path) as journal:
        private_knn().fit(*cut(CUTS[2])).label(QUERIES, journal, kill)


@pytest.mark.filterwarnings("ignore:partitions of about")
@pytest.mark.parametrize("stops", [(1, 9, 30)])
def test_a_coordinator_that_is_killed_resumes_from_the_journal(tmp_path, stops):
    expected = private_knn().fit(X, Y).label(QUERIES)
    for stop in stops:
        assert end_of(killed_child, tmp_path / "run", stop) == -signal.SIGKILL
        with mx.Journal(tmp_path / "run") as journal:
            charges, answers = journal.held()
        assert answers == stop
        assert charges >= stop
    with mx.Journal(tmp_path / "run") as journal:
        model = private_knn().fit(*cut(CUTS[2]))
        found = model.label(QUERIES, journal)
        assert journal.held() == (expected.composition.releases, len(QUERIES))
    assert np.array_equal(found.labels, expected.labels)
    assert model.spent_ == expected.composition
