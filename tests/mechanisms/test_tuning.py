"""Tuning: what it releases against enumeration, what it charges, and what never leaves it."""

import math
import multiprocessing
import os
import signal
import sqlite3
import warnings
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtr

import accountant as ac
import mechanisms as mx
from mechanisms.phases import listen, phase
from mechanisms.students.network import NetworkStudent
from mechanisms.tuning import Tuner
from mechanisms.tuning_grid import most_spent

INF = float("inf")
REPLACE = ac.Adjacency.REPLACE
RNG = np.random.default_rng(0)


class Nearest:
    """A student that gives the label of the nearest labelled point."""

    def fit(self, X, y):
        self.points, self.labels = X[y >= 0], y[y >= 0]
        return self

    def predict(self, X):
        return self.labels[((X[:, None] - self.points[None]) ** 2).sum(axis=2).argmin(axis=1)]


def blobs(n, seed):
    """Three classes that are easy to tell apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (np.eye(3)[y] * 4 + rng.normal(size=(n, 3))).astype(np.float32), y


X, Y = blobs(200, 1)
PUBLIC, _ = blobs(40, 2)
VALIDATION = blobs(80, 3)
KNN = partial(mx.PrivateKNN, sampling_rate=0.5, screening_sigma=None, n_classes=3)
IND = partial(mx.IndividualKNN, count_sigma=20.0, n_classes=3, min_count=5.0)
REVERSE = partial(mx.ReverseKNN, n_classes=3, epsilon=2.0)
GRIDS = {
    "private-knn": (KNN, {"n_neighbors": [1, 20], "vote_sigma": [5.0, 8.0], "max_labels": [20, None]}),
    "screening": (partial(KNN, vote_sigma=8.0, n_neighbors=20), {"screening_sigma": [9.0, 12.0], "threshold": [3, 8]}),
    "ind-knn": (partial(IND, vote_sigma=0.5), {"threshold": [0.2, 0.8], "budget": [0.1, 0.3]}),
    "reverse-knn": (REVERSE, {"n_queries": [8, 16], "n_neighbors": [1, 2], "rounds": [1]}),
    "reverse, two reports": (partial(REVERSE, model="local", randomizer="separation"), {"n_queries": [8, 12]}),
    "reverse, add-remove": (partial(REVERSE, adjacency=ac.Adjacency.ADD_REMOVE), {"n_queries": [8], "epsilon": [1, 2]}),
}


RAISED = 1 + 1e-9
THREE = ac.Geometric(3.0)


def tuner(kind="private-knn", tries=THREE, score_sigma=4.0, **more):
    make, grid = GRIDS[kind]
    given = {"n_records": 200, "make_student": Nearest, "rng": 0, **more}
    return Tuner(make, grid, PUBLIC, tries=tries, score_sigma=score_sigma, **given)


# --- the price covers what is done ---------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1e-6, 0.1, 0.3, 1.0, 1.7, 2.9])
def test_a_budget_costs_a_tuning_what_it_costs_by_itself(budget):
    """It was priced without the margin for the rounding of amounts: a last bit less."""
    spent = most_spent(IND(budget=budget, threshold=0.5, vote_sigma=0.5), 40, 200, 3)
    assert spent.entries.keys() == {ac.GaussianDP(math.sqrt(2 * budget * (1 + 2.0**-50)))}
    assert ac.epsilon(spent, 1e-5, method="tight").epsilon == ac.IndividualFilter(budget).guarantee(1e-5).epsilon


@pytest.mark.each_run(2)
@pytest.mark.parametrize("kind", GRIDS)
def test_the_price_covers_every_setting(kind):
    """Each setting's labelling, as its own object prices it, with the score, is among what is priced as the dearest."""
    whole, orders = tuner(kind), np.concatenate([[1.0], 1 + np.geomspace(1e-3, 1e4, 40), [np.inf]])
    for setting in whole.settings:
        model = GRIDS[kind][0](**setting)
        if isinstance(model, mx.ReverseKNN):
            release = model.planned(200, 3)
            spent = release.rounds * release.event
        elif isinstance(model, mx.IndividualKNN):
            spent = 1 * ac.GaussianDP((2 * model.budget) ** 0.5)
            assert model.guarantee(1e-4).epsilon <= ac.epsilon(spent, 1e-4, method="tight").epsilon * (1 + 1e-9)
        else:
            screening = ac.Composition()
            if model.screening_event is not None:
                screening = len(PUBLIC) * model.screening_event
            spent = (model.max_labels or len(PUBLIC)) * model.vote_event + screening
        one = spent + ac.Gaussian(4.0, 1.0, whole.selection.adjacency)
        assert (
            one.renyi(orders) <= np.max([run.renyi(orders) for run in whole.selection._runs], axis=0) * RAISED
        ).all()
        assert ac.epsilon(one, 1e-4).epsilon <= whole.try_guarantee(1e-4).epsilon * RAISED
        if kind in ("screening", "ind-knn"):  # of the others the profile takes long
            alone = ac.Selection(one, THREE)
            assert (alone.renyi(orders) <= whole.selection.renyi(orders) * RAISED).all()
            assert alone.guarantee(1e-4).epsilon <= whole.guarantee(1e-4).epsilon * RAISED


@pytest.mark.parametrize("kind", ["private-knn", "ind-knn", "reverse-knn"])
def test_a_run_spends_what_was_planned(kind):
    """The labelling of a try, made by hand: its own books hold no more than the setting was priced at."""
    whole = tuner(kind)
    for model, cost in zip(whole._models, whole._costs, strict=True):
        if isinstance(model, mx.PrivateKNN):
            spent = model.fit(X, Y).label(PUBLIC).composition
            assert all(count <= cost.entries[event] for event, count in spent)
        elif isinstance(model, mx.ReverseKNN):
            model.label(X, Y, PUBLIC)
            assert model.spent_ == cost
        else:
            model.fit(X, Y).predict(PUBLIC)
            assert (model.budgets_ >= 0).all()


SIGMAS, SCORE = (1.0, 2.0), 1.5
"""Noise of votes of two settings, and of the score, in the enumeration."""


def best_density(gap, counts, tries, grid):
    """Density of (setting, label, score) of the best try: p(setting, label) phi(score - count) f'(q(score)).

    One public point, two classes, one neighbour with everything in the sample: the label is 0 with probability
    Phi(gap / (sigma sqrt 2)); a validation record counts if it has the label.
    """
    first = [ndtr(gap / (sigma * 2**0.5)) for sigma in SIGMAS]
    weights = np.array([[p, 1 - p] for p in first]) / 2
    below = sum(weights[i, j] * ndtr((grid - counts[j]) / SCORE) for i in range(2) for j in range(2))
    slope = np.exp(tries.log_slope(1 - below))
    normal = np.exp(-(((grid[None] - np.array(counts)[:, None]) / SCORE) ** 2) / 2) / (SCORE * (2 * np.pi) ** 0.5)
    return weights[:, :, None] * normal[None] * slope


NEIGHBOURS = {
    "a record": ((1, (0, 6)), (-1, (0, 6))),  # the nearest one goes, and the next has the other label
    "a validation record": ((1, (3, 2)), (1, (3, 3))),
    "one of each": ((1, (0, 6)), (-1, (0, 7))),
}


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("tries", [ac.Geometric(4.0), ac.Poisson(2.0), ac.NegativeBinomial(6.0, 0.0)], ids=repr)
def test_enumerated_releases_stay_within_the_price(tries, neighbours):
    settings = [1 * ac.GNMax(sigma) + ac.Gaussian(SCORE) for sigma in SIGMAS]
    price, grid = ac.Selection(settings, tries), np.linspace(-12, 18, 6001)
    p, q = (best_density(gap, counts, tries, grid) for gap, counts in NEIGHBOURS[neighbours])
    step, none = grid[1] - grid[0], np.exp(tries.log_none)
    assert p.sum() * step + none == pytest.approx(1.0, abs=1e-6)
    for delta in (1e-3, 1e-2, 0.1):
        epsilon = price.guarantee(delta).epsilon
        for one, other in ((p, q), (q, p)):
            told = np.maximum(one - np.exp(epsilon) * other, 0).sum() * step
            assert told <= delta
    if neighbours != "a validation record":  # the price of ten times the noise is found out
        quiet = [1 * ac.GNMax(10 * sigma) + ac.Gaussian(10 * SCORE) for sigma in SIGMAS]
        little = ac.Selection(quiet, tries).guarantee(0.01).epsilon
        assert np.maximum(p - np.exp(little) * q, 0).sum() * step > 0.01


@pytest.mark.audit
def test_what_is_released_is_what_was_enumerated():
    """Frequencies of settings and labels, and the mean score, over runs with seeds."""
    records, labels = np.array([[0.0], [3.0]]), np.array([0, 1])
    validation = np.zeros((5, 1)), np.array([0, 0, 0, 1, 1])
    make = partial(mx.PrivateKNN, n_neighbors=1, sampling_rate=1.0, screening_sigma=None, n_classes=2)
    tries, runs, found = ac.Poisson(2.0), 600, []
    for seed in range(runs):
        one = Tuner(
            make,
            {"vote_sigma": SIGMAS},
            np.zeros((1, 1)),
            tries=tries,
            score_sigma=SCORE,
            n_records=2,
            make_student=Nearest,
            rng=seed,
        )
        out = one.run(records, labels, validation)
        found.append((-1, -1, 0.0) if out.setting is None else (out.setting["vote_sigma"], out.labels[0], out.score))
    grid = np.linspace(-12, 18, 3001)
    density = best_density(1, (3, 2), tries, grid)
    step = grid[1] - grid[0]
    for i, sigma in enumerate(SIGMAS):
        for j in range(2):
            exact = density[i, j].sum() * step
            share = np.mean([each[:2] == (sigma, j) for each in found])
            assert abs(share - exact) < 5 * (exact * (1 - exact) / runs) ** 0.5
    none = np.exp(-2.0)
    assert abs(np.mean([each[0] == -1 for each in found]) - none) < 5 * (none * (1 - none) / runs) ** 0.5
    mean = (density.sum(axis=(0, 1)) * grid).sum() * step
    assert abs(np.mean([each[2] for each in found]) - mean) < 5 * 2.5 / runs**0.5


# --- charges -------------------------------------------------------------------------------------------------


def test_the_charge_is_on_disk_before_anything_is_drawn(tmp_path, monkeypatch):
    path, seen = tmp_path / "tuning.journal", []

    def look(tries, source):
        seen.append(path.stat().st_size)
        raise OSError("the power went")

    one = tuner(rng=None)
    monkeypatch.setattr("mechanisms.tuning.draw_tries", look)
    with mx.Journal(path) as journal:
        with pytest.raises(mx.TuningError, match="the whole price is charged"):
            one.run(X, Y, VALIDATION, journal)
        assert journal.held() == (1, 0)
    assert seen
    with pytest.raises(ac.AccountantError, match="called before"):
        one.run(X, Y, VALIDATION)


class KilledLater(Nearest):
    """A student whose process is killed at the second try."""

    lessons = 0

    def fit(self, X, y):
        KilledLater.lessons += 1
        if KilledLater.lessons == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


def tune_until_killed(path):
    with mx.Journal(path) as journal:
        tuner(tries=ac.Geometric(30.0), make_student=KilledLater, rng=None).run(X, Y, VALIDATION, journal)


# the second lesson is the second try; after a single try it is what was released, and that is returned again
@pytest.mark.parametrize(("tries", "answers"), [(5, 0), (1, 1)])
def test_a_killed_run_stays_charged(tmp_path, monkeypatch, tries, answers):
    monkeypatch.setattr("mechanisms.tuning.draw_tries", lambda _tries, _source: tries)
    path, charges = tmp_path / "tuning.journal", 2 - answers
    child = multiprocessing.get_context("fork").Process(target=tune_until_killed, args=(path,))
    child.start()
    child.join(300)
    assert child.exitcode == -signal.SIGKILL
    one = tuner(tries=ac.Geometric(30.0), rng=None)
    with mx.Journal(path) as journal:
        assert journal.held() == (1, answers)
        out = one.run(X, Y, VALIDATION, journal)
        assert journal.held() == (charges, 1)
    assert out.charges == charges
    assert out.composition == charges * one.selection
    assert out.guarantee(1e-4).epsilon == ac.epsilon(charges * one.selection, 1e-4).epsilon
    assert (out.guarantee(1e-4).epsilon > one.guarantee(1e-4).epsilon) == (charges == 2)
    # a finished run is given back, and not made or charged again
    with mx.Journal(path) as journal:
        again = tuner(tries=ac.Geometric(30.0), rng=None).run(X, Y, VALIDATION, journal)
        assert journal.held() == (charges, 1)
    assert (again.setting, again.score, again.charges) == (out.setting, out.score, charges)
    assert (again.labels == out.labels).all()
    with mx.Journal(path) as journal, pytest.raises(ac.AccountantError, match="holds a run with other private"):
        tuner(tries=ac.Geometric(30.0), rng=None).run(X[:-1], Y[:-1], VALIDATION, journal)


def test_a_rehearsal_is_repeated_by_its_seed(tmp_path):
    first = tuner(rng=7).run(X, Y, VALIDATION)
    with mx.Journal(tmp_path / "a.journal") as journal:
        second = tuner(rng=7).run(X, Y, VALIDATION, journal)
    assert (first.setting, first.score, first.labels.tolist()) == (second.setting, second.score, second.labels.tolist())
    assert second.charges == 1


# --- what leaves ---------------------------------------------------------------------------------------------


def public_rows(path):
    """The journal without the file's key, and without digests made with it."""
    with sqlite3.connect(path) as database:
        rows = [
            list(row) for row in database.execute("SELECT number, part, kind, query, text FROM log ORDER BY number")
        ]
    for row in rows:
        if row[2] == "header":
            row[4] = ",".join(part for part in row[4].split(", ") if not part.startswith('"private"'))
    return rows


NEIGHBOURING = {
    "all": (X, Y, VALIDATION),
    "a record less": (X[1:], Y[1:], VALIDATION),
    "a validation record less": (X, Y, (VALIDATION[0][1:], VALIDATION[1][1:])),
    "another label": (X, np.where(np.arange(200) == 5, (Y + 1) % 3, Y), VALIDATION),
}


@pytest.mark.parametrize("kind", ["private-knn", "ind-knn"])
def test_neighbours_see_the_same_journal_and_price(tmp_path, kind, monkeypatch):
    """All that is written before the result, and the result where no try is drawn."""
    monkeypatch.setattr("mechanisms.tuning.draw_tries", lambda tries, source: 0)
    found = {}
    for name, (features, labels, validation) in NEIGHBOURING.items():
        path = tmp_path / f"{name}.journal"
        one = tuner(kind, tries=ac.Poisson(3.0), rng=None)
        with mx.Journal(path) as journal:
            out = one.run(features, labels, validation, journal)
        assert (out.setting, out.score, out.student) == (None, None, None)
        assert (out.labels == -1).all()
        found[name] = public_rows(path), repr(one.selection), out.guarantee(1e-4)
    assert all(each == found["all"] for each in found.values())


def test_neighbours_get_the_same_errors(tmp_path):
    """What is refused is refused for public reasons; a failure within a try says nothing."""
    said = set()
    for features, labels, validation in NEIGHBOURING.values():
        with pytest.raises(ac.ParameterError) as refused:
            Tuner(KNN, {"n_neighbors": [191]}, PUBLIC, tries=ac.Poisson(3.0), score_sigma=4.0, n_records=200)
        one = tuner(make_student=partial(Fails, len(features), len(validation[1])), rng=None, tries=ac.Geometric(3.0))
        with pytest.raises(mx.TuningError) as failed:
            one.run(features, labels, validation)
        assert failed.value.__cause__ is None
        assert failed.value.__suppress_context__
        said.add((str(refused.value), str(failed.value)))
    assert len(said) == 1
    ((refused, _),) = said
    assert "accepted: at most 190" in refused
    with pytest.raises(RuntimeError, match="failed with 200"):  # a rehearsal says why
        tuner(make_student=partial(Fails, 200, 80)).run(X, Y, VALIDATION)


class Fails:
    def __init__(self, *about):
        self.about = about

    def fit(self, X, y):
        raise RuntimeError(f"failed with {self.about[0]}")


class Picky:
    """Takes no features above 1."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        if X.max() > 1.0:
            raise ValueError(f"features of {X.max()}")
        return np.zeros(len(X), int)


def test_a_student_that_does_not_take_a_record_is_wrong_about_it():
    """Otherwise one validation record would end every run that makes a try."""
    features, truth = np.zeros((30, X.shape[1]), np.float32), np.zeros(30, int)
    for out_of_range in (0, 1):
        features[:out_of_range] = 2.0
        one = tuner(make_student=Picky, rng=None, tries=ac.Geometric(3.0))
        data = one._check(X, Y, (features, truth))
        labels = np.zeros(len(PUBLIC), int)
        assert one._count_right(labels, data) == 30 - out_of_range
    with pytest.raises(ValueError, match="features of 2"):
        tuner(make_student=Picky)._count_right(labels, data)


def test_tries_are_silent(monkeypatch):
    """One phase for all tries, with no number; no warning, whatever a try warns of."""
    heard = []

    class Loud(Nearest):
        def fit(self, X, y):
            warnings.warn("a try", stacklevel=1)
            with phase("a try", 3) as tick:
                tick(1)
            return super().fit(X, y)

    def listener(name, total):
        heard.append((name, total))
        from contextlib import nullcontext

        return nullcontext(lambda done: heard.append((done,)))

    with warnings.catch_warnings(record=True) as caught, listen(listener):
        warnings.simplefilter("always")
        one = tuner(make_student=Loud)
        one.run(X, Y, VALIDATION)
    tries = [each for each in heard if each[0] != "indexing the private records"]
    assert tries[0] == ("tuning; how many tries there are stays secret", None)
    assert tries[1:] == [("a try", 3), (1,)]  # the released labels are learnt once more, when all tries are over
    assert sum("a try" in str(each.message) for each in caught) == 1


def test_only_the_best_try_is_kept():
    out = tuner(tries=ac.Geometric(10.0)).run(X, Y, VALIDATION)
    assert set(vars(out)) == {"setting", "score", "labels", "student", "selection", "charges"}
    assert out.setting in tuner().settings


def test_a_validation_record_does_not_change_how_others_are_labelled():
    """The default student, asked for each record by itself, gives the same answers in any company."""
    one = tuner(make_student=None)
    labels = np.where(np.arange(len(PUBLIC)) < 30, PUBLIC.argmax(axis=1), -1)
    student = one._teach(labels)
    assert isinstance(student, NetworkStudent)
    alone = [int(student.predict(row[None])[0]) for row in VALIDATION[0]]
    right = np.array(alone) == VALIDATION[1]
    whole = one._count_right(labels, one._check(X, Y, VALIDATION))
    assert whole == right.sum()
    for i in (0, 40, 79):
        left = np.delete(VALIDATION[0], i, axis=0), np.delete(VALIDATION[1], i)
        assert whole - one._count_right(labels, one._check(X, Y, left)) == right[i]
    assert one._count_right(np.full(len(PUBLIC), -1), one._check(X, Y, VALIDATION)) == 0


# --- use -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRIDS)
def test_every_mechanism_is_tuned(kind):
    out = tuner(kind, tries=ac.Geometric(4.0), score_sigma=2.0).run(X, Y, VALIDATION)
    assert out.labels.shape == (len(PUBLIC),)
    assert out.labels.max() < 3
    assert np.mean(out.student.predict(VALIDATION[0]) == VALIDATION[1]) > 0.3


@pytest.mark.audit
def test_tuning_finds_what_is_better():
    """One neighbour with votes drowned in noise, or many: nearly always the latter, by its score."""
    grid = {"n_neighbors": [1, 60], "vote_sigma": [8.0]}
    chosen = [
        mx.tune(
            KNN,
            grid,
            X,
            Y,
            PUBLIC,
            VALIDATION,
            tries=ac.Geometric(8.0),
            score_sigma=3.0,
            n_records=200,
            make_student=Nearest,
            rng=seed,
        ).setting["n_neighbors"]
        for seed in range(12)
    ]
    assert chosen.count(60) >= 9


def make(name="PrivateKNN", **more):
    return partial(getattr(mx, name), **{"n_classes": 3, **more})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"grid": {"n_neighbors": []}}, r"grid: n_neighbors = \[\]; accepted: a list of one value or more"),
        ({"grid": {"n_neighbors": "12"}}, "grid: n_neighbors = '12'; accepted: a list"),
        ({"grid": [1]}, r"grid = \[1\]; accepted: a mapping"),
        ({"grid": {"vote_sigma": list(range(1, 1002))}}, "more than 1000 settings; accepted: fewer"),
        ({"grid": {"sigma": [1.0]}}, "unexpected keyword argument 'sigma'; accepted: among n_neighbors"),
        ({"grid": {"n_neighbors": [191]}}, "n_neighbors = 191 in .*; accepted: at most 190"),
        ({"grid": {"n_neighbors": [5], "vote_sigma": [-1.0]}}, "sigma = -1 is out of range"),
        ({"make": make(n_classes=None)}, "n_classes = None in tuning; accepted: a public number"),
        ({"make": make(classes=["a", "b", "c"])}, "classes = .* in tuning; accepted: None"),
        ({"make": make(clip=2.0)}, r"clip = 2\.0 in tuning; accepted: None"),
        ({"make": lambda **setting: 3}, "make gave 3; accepted: a PrivateKNN"),
        ({"tries": 10}, r"tries = 10; accepted: ac\.Poisson"),
        ({"tries": ac.Geometric(2000.0)}, "with a mean of at most 1000"),
        ({"score_sigma": 0.0}, r"score_sigma = 0\.0; accepted: a finite number above 0"),
        ({"score_sigma": 1e60}, r"^score_sigma = 1e\+60 is out of range"),
        ({"n_records": 0}, "n_records = 0; accepted"),
        ({"public": np.full((3, 3), np.nan)}, "public"),
        ({"grid": {"max_labels": [INF]}}, r"^max_labels = inf; accepted: an integer in \[1, 1000000000000\]"),
        ({"grid": {"max_labels": [0]}}, r"^max_labels = 0; accepted: an integer in \[1, "),
        ({"grid": {"max_labels": ["abc"]}}, r"^max_labels = 'abc'; accepted: an integer in \[1, "),
        ({"make": IND, "grid": {"vote_sigma": [1], "budget": [10**400], "threshold": [0.5]}}, "budget = .*a finite"),
        *(
            ({"make": REVERSE, "grid": {"n_queries": [8], "balance": [0.5, each]}}, r"^balance = .*accepted: \[0, 1\]")
            for each in (2.0, INF, -1, "abc", None)
        ),
        ({"make": make("ReverseKNN"), "grid": {"n_queries": [41]}}, r"n_queries = 41; accepted: an integer in \[1, 40"),
    ],
)
def test_refusals(given, words):
    usual = {"make": KNN, "grid": {"n_neighbors": [5]}, "public": PUBLIC, "tries": ac.Geometric(3.0)}
    with pytest.raises(ac.ParameterError, match=words) as caught:
        Tuner(**{**usual, "score_sigma": 2.0, "n_records": 200, **given})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X, Y[1:], VALIDATION), r"y has shape \(199,\)"),
        ((X[:, 1:], Y, VALIDATION), "columns"),
        ((X, Y, (VALIDATION[0], np.full(80, 3))), "y holds the label 3"),
        ((X, Y, (VALIDATION[0][:, 1:], VALIDATION[1])), "columns"),
    ],
)
def test_refused_data_is_not_charged(tmp_path, data, words):
    one = tuner()
    with mx.Journal(tmp_path / "a.journal") as journal:
        with pytest.raises(ac.ParameterError, match=words):
            one.run(*data, journal)
        assert journal.held() == (0, 0)
        one.run(X, Y, VALIDATION, journal)  # the refusal used up nothing


def test_noise_too_wide_for_exact_draws_is_not_charged(tmp_path):
    grid = {"n_neighbors": [5], "vote_sigma": [5.0, 1e15]}
    one = Tuner(KNN, grid, PUBLIC, tries=THREE, score_sigma=2.0, n_records=200, make_student=Nearest)
    with mx.Journal(tmp_path / "a.journal") as journal:
        with pytest.raises(ac.ParameterError, match=r"noise of scale 1e\+15; accepted: at most 5.*e\+14"):
            one.run(X, Y, VALIDATION, journal)
        assert journal.held() == (0, 0)


def test_the_number_of_records_is_public_under_replacement():
    with pytest.raises(ac.ParameterError, match="199 records; accepted: n_records = 200, which are public"):
        tuner("reverse-knn").run(X[1:], Y[1:], VALIDATION)
    assert tuner("reverse-knn").score_event == ac.Gaussian(4.0, 1.0, REPLACE)
