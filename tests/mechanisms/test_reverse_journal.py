"""Reverse k-NN with a journal: a killed run goes on, with what it has charged and with the counts that it has."""

import numpy as np
import pytest

import mechanisms as mx
from mechanisms.journal import Journal, JournalError
from mechanisms.reverse_knn import Federation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
PUBLIC = RNG.normal(size=(120, 4)).astype(np.float32)


def labeller(**changes):
    return mx.ReverseKNN(**{"n_queries": 12, "epsilon": 4.0, "delta": 1e-6, "rounds": 3, "rng": 7, **changes})


class Killed(BaseException):
    """What ends the process."""


@pytest.mark.parametrize("model", ["central", "local", "shuffle"])
@pytest.mark.parametrize("after", range(6))
def test_a_killed_run_goes_on(model, after, tmp_path, monkeypatch):
    """Killed before or after any round was drawn; a seeded run ends as one that was not interrupted."""
    whole = labeller(model=model).label(X, Y, PUBLIC)
    run, steps = Federation.run, [0]

    def dying(self, setup):
        for step in ("before", "after"):
            if steps[0] == after:
                raise Killed
            steps[0] += 1
            if step == "before":
                found = run(self, setup)
        return found

    monkeypatch.setattr(Federation, "run", dying)
    with Journal(tmp_path / "journal") as journal, pytest.raises(Killed):
        labeller(model=model).label(X, Y, PUBLIC, journal=journal)
    monkeypatch.setattr(Federation, "run", run)
    with Journal(tmp_path / "journal") as journal:
        out = labeller(model=model).label(X, Y, PUBLIC, journal=journal)
    assert np.array_equal(out.labels, whole.labels)
    for now, then in zip(out.rounds, whole.rounds, strict=True):
        assert np.array_equal(now.counts, then.counts)
    assert out.composition == whole.composition == out.planned
    assert out.bytes_per_client == whole.bytes_per_client


def test_nothing_is_drawn_twice(tmp_path):
    """Without a seed, counts that are in the journal are those of the run that goes on."""
    with Journal(tmp_path / "journal") as journal:
        first = labeller(rng=None).label(X, Y, PUBLIC, journal=journal)
    with Journal(tmp_path / "journal") as journal:
        again = labeller(rng=None).label(X, Y, PUBLIC, journal=journal)
    for now, then in zip(again.rounds, first.rounds, strict=True):
        assert np.array_equal(now.counts, then.counts)


@pytest.mark.parametrize("changes", [{"epsilon": 3.0}, {"rounds": 2}, {"n_queries": 11}, {"rng": 8}])
def test_another_run_is_refused(changes, tmp_path):
    with Journal(tmp_path / "journal") as journal:
        labeller().label(X, Y, PUBLIC, journal=journal)
    with Journal(tmp_path / "journal") as journal, pytest.raises(JournalError, match="holds a run with other"):
        labeller(**changes).label(X, Y, PUBLIC, journal=journal)
