"""A fitted mechanism draws what its guarantee prices, and its past releases stay in its composition."""

import copy
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

import accountant as ac
import mechanisms as mx
from mechanisms.budgets.journal import Journal
from mechanisms.exclusive import UsageError
from mechanisms.labelling import PlanExceeded
from mechanisms.noise.source import System

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 120)
QUERIES = RNG.normal(size=(30, 4)).astype(np.float32)
ORDERS = [1.5, 4.0, 30.0]


def nearest():
    return KNeighborsClassifier(1)


def private_knn(**changes):
    return mx.PrivateKNN(
        **{"n_neighbors": 9, "sampling_rate": 0.4, "screening_sigma": 5.0, "vote_sigma": 4.0, "n_classes": 3} | changes
    )


def gnmax(**changes):
    return mx.GNMax(**{"n_teachers": 12, "sigma": 5.0, "make_teacher": nearest, "n_classes": 3} | changes)


def lnmax(**changes):
    return mx.LNMax(**{"n_teachers": 12, "scale": 5.0, "make_teacher": nearest, "n_classes": 3} | changes)


LABELLERS = {"private-knn": private_knn, "gnmax": gnmax, "lnmax": lnmax}
QUIETER = {  # parameters with much more noise or smaller samples than those that were fitted
    "private-knn": [{"vote_sigma": 400.0}, {"sampling_rate": 0.001}, {"screening_sigma": 500.0}, {"n_neighbors": 1}],
    "gnmax": [{"sigma": 500.0}],
    "lnmax": [{"scale": 500.0}],
}


# --- drawn and priced from one plan --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "changes"), [(name, each) for name in QUIETER for each in QUIETER[name]])
def test_parameters_changed_after_fit_move_neither_draws_nor_price(name, changes):
    still, changed = (LABELLERS[name](max_labels=20, rng=5).fit(X, Y) for _ in range(2))
    changed.set_params(**changes)
    for attribute, value in changes.items():
        setattr(changed, attribute, value)
    one, other = still.label(QUERIES), changed.label(QUERIES)
    assert one.labels.tolist() == other.labels.tolist()
    assert one.composition == other.composition
    assert one.planned == other.planned
    assert one.guarantee(1e-5) == other.guarantee(1e-5)
    assert still.guarantee(1e-5) == changed.guarantee(1e-5)


def test_label_sets_are_frozen_too():
    sets = (RNG.random((120, 5)) < 0.4).astype(int)
    still, changed = (private_knn(clip=2.0, max_labels=30, rng=5).fit(X, sets) for _ in range(2))
    changed.set_params(clip=None, n_neighbors=100, vote_sigma=1e6)
    one, other = still.label(QUERIES), changed.label(QUERIES)
    assert np.array_equal(one.labels, other.labels)
    assert one.guarantee(1e-5) == other.guarantee(1e-5)


def test_training_is_priced_by_what_was_drawn():
    model = mx.LinearNoisySGD(noise_multiplier=1.0, sampling_rate=0.2, steps=20, n_classes=3, rng=0).fit(X, Y)
    price = model.guarantee(1e-5)
    assert price == ac.epsilon(20 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.2), 1e-5)
    model.set_params(noise_multiplier=1000.0, steps=1)
    assert model.guarantee(1e-5) == price


# --- what was released stays released ------------------------------------------------------------------


@pytest.mark.parametrize("name", LABELLERS)
def test_fit_forgets_nothing(name):
    model = LABELLERS[name](max_labels=20, rng=0)
    first = model.fit(X, Y).label(QUERIES)
    second = model.fit(X, Y).label(QUERIES[:10])
    assert model.spent_ == first.composition + second.composition
    assert second.before == first.planned
    assert second.guarantee(1e-5) == ac.epsilon(first.planned + second.planned, 1e-5) == model.guarantee(1e-5)
    assert second.guarantee(1e-5).epsilon > first.guarantee(1e-5).epsilon


def test_training_again_forgets_nothing():
    model = mx.LinearNoisySGD(1.0, 0.2, 20, n_classes=3, rng=0).fit(X, Y)
    once = model.guarantee(1e-5).epsilon
    model.fit(X, Y)
    step = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.2)
    assert model.spent_ == 40 * step
    assert model.guarantee(1e-5) == ac.epsilon(40 * step, 1e-5)
    assert model.guarantee(1e-5).epsilon > once
    model.set_params(noise_multiplier=100.0).fit(X, Y)
    assert model.spent_ == 40 * step + 20 * ac.PoissonSubsampled(ac.Gaussian(100.0), 0.2)


def test_a_training_that_was_interrupted_is_priced_whole():
    class Stops(System):
        def __init__(self):
            super().__init__()
            self.draws = 0

        def gaussian(self, sigma, size, grain):
            self.draws += 1
            if self.draws == 8:
                raise KeyboardInterrupt
            return super().gaussian(sigma, size, grain)

    model = mx.LinearNoisySGD(1.0, 0.2, 20, n_classes=3, rng=Stops())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    step = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.2)
    assert model.spent_ == 8 * step
    model.fit(X, Y)
    assert model.spent_ == 28 * step
    assert model.guarantee(1e-5) == ac.epsilon(40 * step, 1e-5)


def test_an_odometer_reading_stays_one():
    model = private_knn(rng=0).fit(X, Y)
    first = model.label(QUERIES)
    assert first.guarantee(1e-5).odometer
    model.set_params(max_labels=5)
    second = model.fit(X, Y).label(QUERIES)
    assert second.guarantee(1e-5).odometer, "what came before was counted afterwards"
    assert second.before == first.composition
    assert model.guarantee(1e-5).epsilon == ac.epsilon(first.composition + second.planned, 1e-5).epsilon


# --- the plan is the limit -----------------------------------------------------------------------------


def planned(**changes):
    plan = {"n_queries": 20, "max_labels": 12, "n_neighbors": 9, "sampling_rate": 0.4, "n_classes": 3, "rng": 0}
    return mx.PrivateKNN.for_budget(1.0, 1e-5, **plan | changes)


def test_for_budget_answers_what_was_planned_and_no_more():
    model = planned(rng=1).fit(X, Y)
    with pytest.raises(PlanExceeded, match="30 queries; accepted: at most the 20 that are left of n_queries = 20"):
        model.label(QUERIES)
    assert model.spent_.releases == 0
    first = model.label(QUERIES[:15])
    with pytest.raises(PlanExceeded, match="at most the 5 that are left"):
        model.label(QUERIES[:6])
    second = model.label(QUERIES[:5])
    with pytest.raises(PlanExceeded, match="at most the 0"):
        model.label(QUERIES[:1])
    with pytest.raises(PlanExceeded):
        model.fit(X, Y).label(QUERIES[:1])
    assert first.guarantee(1e-5) == second.guarantee(1e-5) == model.guarantee(1e-5)
    assert 0.99 < model.guarantee(1e-5).epsilon <= 1.0
    assert (np.diff(np.array([model.spent_.renyi(ORDERS), first.planned.renyi(ORDERS)]), axis=0) >= 0).all()


def test_max_labels_counts_over_all_calls_of_a_plan():
    model = planned(screening_ratio=None).fit(X, Y)
    answered = [model.label(QUERIES[:size]).answered.sum() for size in (8, 8, 4)]
    assert answered == [8, 4, 0]


def test_another_plan_adds_its_own_price():
    model = planned().fit(X, Y)
    first = model.label(QUERIES[:20])
    second = model.set_params(vote_sigma=2 * model.vote_sigma).fit(X, Y).label(QUERIES[:20])
    assert second.before == first.planned
    assert second.guarantee(1e-5).epsilon > first.guarantee(1e-5).epsilon


def test_rounds_stay_within_the_plan():
    from mechanisms.rounds import label_in_rounds

    with pytest.raises(ac.ParameterError, match="2 rounds of 11 queries; accepted: at most 20, what is left of n_qu"):
        label_in_rounds(planned(screening_ratio=None), X, Y, QUERIES, queries=11, rounds=2)
    out = label_in_rounds(planned(screening_ratio=None), X, Y, QUERIES, queries=10, rounds=2)
    assert out.guarantee(1e-5).epsilon <= 1.0
    assert not out.guarantee(1e-5).odometer


def test_a_run_that_goes_on_in_the_same_object_is_counted_once(tmp_path):
    model = planned(screening_ratio=None, rng=None).fit(X, Y)

    def stop(done):
        if done == 7:
            raise KeyboardInterrupt

    with Journal(tmp_path / "run") as journal, pytest.raises(KeyboardInterrupt):
        model.label(QUERIES[:20], journal, stop)
    assert model.spent_.releases == 7
    with Journal(tmp_path / "run") as journal:
        out = model.label(QUERIES[:20], journal)
    assert out.composition == model.spent_
    assert model.spent_.releases == 12
    assert model.guarantee(1e-5) == out.guarantee(1e-5)


def test_a_journal_that_lost_charges_does_not_hide_them(tmp_path):
    """An older copy of the journal and its counter are restored: the object still knows what it drew."""
    model = private_knn(screening_sigma=None, max_labels=20, rng=System()).fit(X, Y)
    with Journal(tmp_path / "empty") as journal:
        pass
    (tmp_path / "run").write_bytes((tmp_path / "empty").read_bytes())
    with Journal(tmp_path / "run") as journal:
        model.label(QUERIES[:20], journal)
    for end in ("", ".generation"):
        (tmp_path / f"run{end}").unlink()
    (tmp_path / "run").write_bytes((tmp_path / "empty").read_bytes())
    with Journal(tmp_path / "run") as journal:
        again = model.label(QUERIES[:20], journal)
    assert model.spent_.releases == 40
    assert again.promised.releases == 40


def test_other_private_labels_are_refused(tmp_path):
    for make in LABELLERS.values():
        path = tmp_path / make.__name__
        with Journal(path) as journal:
            make(rng=0).fit(X, Y).label(QUERIES, journal)
        others = [(X, (Y + (np.arange(120) == 3)) % 3), (X[::-1], Y), (X[:-1], Y[:-1])]
        for records, labels in others:
            with Journal(path) as journal, pytest.raises(ac.AccountantError, match="private"):
                make(rng=0).fit(records, labels).label(QUERIES, journal)
        with Journal(path) as journal:
            make(rng=0).fit(X, Y).label(QUERIES, journal)


# --- one process, one thread at a time, no copies ------------------------------------------------------


def test_threads_charge_for_every_answer():
    model = private_knn(screening_sigma=None, rng=System()).fit(X, Y)
    answers = []
    threads = [
        threading.Thread(target=lambda: [answers.append(model.label(QUERIES[:5])) for _ in range(10)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(int(each.answered.sum()) for each in answers) == model.spent_.releases == 300
    assert model.guarantee(1e-5).epsilon == ac.epsilon(model.spent_, 1e-5).epsilon


FITTED = {
    **{name: lambda make=make: make(rng=0).fit(X, Y) for name, make in LABELLERS.items()},
    "noisy-sgd": lambda: mx.LinearNoisySGD(steps=3, n_classes=3, rng=0).fit(X, Y),
}


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_has_been_fitted_is_not_copied(name, make):
    model = FITTED[name]()
    with pytest.raises(UsageError, match="would not know what the other one spends"):
        make(model)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("name", FITTED)
def test_a_fork_releases_nothing(name):
    model = FITTED[name]()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            model.fit(X, Y) if name == "noisy-sgd" else model.label(QUERIES)
            os.write(writer, b"released")
        except UsageError:
            os.write(writer, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"refused"


def test_a_teacher_that_answers_no_class_does_not_stop_the_run():
    class Odd:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.full(len(X), 99)

    out = gnmax(make_teacher=Odd, rng=0).fit(X, Y).label(QUERIES)
    assert set(out.labels.tolist()) <= {0, 1, 2}


def test_what_teachers_say_of_their_shards_reaches_no_log(recwarn):
    gnmax(make_teacher=None, n_teachers=3, rng=0).fit(X * 1e6, Y).label(QUERIES)
    assert not recwarn.list


class Stopped(BaseException):
    """An interruption, like Ctrl-C, at any place."""


def stop(*_):
    raise Stopped


def again(model, path, *arguments):
    """The run in a journal that is opened again."""
    with Journal(path) as journal:
        return model.label(QUERIES[:10], journal, *arguments)


@pytest.mark.parametrize("limits", [{"n_queries": 10, "max_labels": 8}, {"n_queries": 10}, {"max_labels": 8}, {}])
def test_a_run_given_again_and_stopped_early_forgets_nothing(tmp_path, limits):
    model = private_knn(screening_sigma=None, **limits).fit(X, Y)
    again(model, tmp_path / "a.journal")
    spent, price = model.spent_, model.guarantee(1e-5)
    with pytest.raises(Stopped):
        again(model, tmp_path / "a.journal", stop)
    assert model.spent_ == spent
    assert model.guarantee(1e-5) == price
    if "n_queries" in limits:
        with pytest.raises(PlanExceeded, match=r"at most the [02] that are left"):
            model.label(QUERIES[10:13])
    assert again(model, tmp_path / "a.journal").composition == spent
    assert model.spent_ == spent


def at_line(line, call):
    """Interrupt a call after this many lines of a mechanism; returns whether it got so far."""
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        # not where locks are released: only a tracer can interrupt a program between these lines
        if not frame.f_code.co_filename.endswith(("/labelling.py", "/labelling_plan.py", "/private_knn.py")):
            return None
        seen += event == "line"
        if seen == line and event == "line":
            raise Stopped
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Stopped:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_run_stopped_at_any_line_forgets_nothing(tmp_path):
    line = 1
    while line:
        model = private_knn(n_queries=10, max_labels=8, screening_sigma=None, rng=System()).fit(X, Y)
        path = tmp_path / f"{line}.journal"
        again(model, path)
        spent = model.spent_.entries
        line = line + 11 if at_line(line, lambda model=model, path=path: again(model, path)) else 0
        assert all(model.spent_.entries[event] >= count for event, count in spent.items())
        with pytest.raises(PlanExceeded):
            model.label(QUERIES[10:13])


def test_a_fit_stopped_at_any_line_draws_from_no_records_of_another_plan():
    sets, line = np.ones((60, 5), int), 1
    while line:
        model = private_knn(clip=4.0, max_labels=3).fit(X[:60], sets)
        model.set_params(clip=0.5, n_neighbors=3)
        line = line + 1 if at_line(line, lambda model=model: model.fit(X[:60], sets)) else 0
        try:
            model.label(QUERIES[:1])
        except ac.AccountantError:
            continue
        assert dict(model._plan.details)["clip"] == pytest.approx(model._labels.sum(axis=1).max())
        assert dict(model._plan.details)["n_neighbors"] == model._k


def test_rounds_count_for_the_labeller_that_was_lent():
    from mechanisms.rounds import label_in_rounds

    model = planned(screening_ratio=None, max_labels=20)
    first = label_in_rounds(model, X, Y, QUERIES, queries=10, rounds=1)
    assert model.spent_ == first.composition
    assert model.guarantee(1e-5) == first.guarantee(1e-5)
    with pytest.raises(ac.ParameterError, match="2 rounds of 10 queries; accepted: at most 10"):
        label_in_rounds(model, X, Y, QUERIES, queries=10, rounds=2)
    second = label_in_rounds(model, X, Y, QUERIES, queries=10, rounds=1)
    assert model.spent_ == first.composition + second.composition
    assert model.guarantee(1e-5).epsilon <= 1.0
    with pytest.raises(ac.ParameterError, match="accepted: at most 0"):
        label_in_rounds(model, X, Y, QUERIES, queries=1, rounds=1)


def test_an_experiment_is_not_copied_before_it_runs():
    from mechanisms.datasets import Dataset
    from mechanisms.experiment import Experiment, Setting

    experiment = Experiment(
        Setting("private-knn", 2.0, 1e-4, queries=5, seed=0),
        Dataset("a", X, Y),
        Dataset("b", QUERIES, None),
        n_classes=3,
    )
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError, match="would not know"):
            make(experiment)


@pytest.mark.parametrize("changes", [{}, {"max_labels": 8}, {"n_queries": 30}])
def test_a_guarantee_asked_for_while_a_run_goes_on_counts_what_it_has_spent(changes):
    model = private_knn(rng=0, **changes).fit(X, Y)
    model.label(QUERIES[:4])
    seen = []

    def look(done):
        seen.append((model.guarantee(1e-5).epsilon, ac.epsilon(model.spent_, 1e-5).epsilon))

    model.label(QUERIES[4:12], None, look)
    assert len(seen) > 0
    assert all(stated >= spent > 0 for stated, spent in seen)
    assert model.guarantee(1e-5).epsilon >= seen[-1][1]


def test_a_guarantee_asked_for_between_rounds_counts_their_plan():
    from mechanisms.rounds import label_in_rounds

    model, seen = private_knn(rng=0, screening_sigma=None, max_labels=6), []
    label_in_rounds(
        model, X, Y, QUERIES, queries=6, rounds=2, progress=lambda done: seen.append(model.guarantee(1e-5).epsilon)
    )
    once = ac.epsilon(6 * model.vote_event, 1e-5).epsilon
    assert seen[0] >= once
    assert seen[-1] == model.guarantee(1e-5).epsilon > once


def test_rounds_that_were_interrupted_go_on_within_the_plan(tmp_path):
    from mechanisms.rounds import label_in_rounds

    model = planned(screening_ratio=None, max_labels=20, rng=None)

    def stop(done):
        if done == 13:
            raise KeyboardInterrupt

    with Journal(tmp_path / "run") as journal, pytest.raises(KeyboardInterrupt):
        label_in_rounds(model, X, Y, QUERIES, queries=10, rounds=2, journal=journal, progress=stop)
    assert model.spent_.releases == 13
    with Journal(tmp_path / "run") as journal:
        out = label_in_rounds(model, X, Y, QUERIES, queries=10, rounds=2, journal=journal)
    assert model.spent_ == out.composition
    assert model.spent_.releases == 20
    assert model.guarantee(1e-5).epsilon <= 1.0
