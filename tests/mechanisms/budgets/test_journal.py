"""Interrupted runs: every draw was charged on disk before, answers are kept, and the run goes on."""

import copy
import os
import pickle
import shutil
import signal
import sqlite3
import time
from contextlib import closing, contextmanager
from threading import Thread

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import accountant as ac
import mechanisms as mx
from mechanisms import features, rounds
from mechanisms.budgets.journal import Journal, JournalError
from mechanisms.exclusive import UsageError
from mechanisms.labelling import Labeller
from mechanisms.noise.source import Seeded, System
from mechanisms.rounds import label_in_rounds
from mechanisms.students.network import NetworkStudent
from tests.cases import audit_after
from tests.mechanisms.children import CONTEXT

pytest.importorskip("opendp.prelude")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)).astype(np.float32), RNG.integers(0, 3, 60)
SETS = RNG.integers(0, 2, (60, 3))
QUERIES = RNG.normal(size=(60, 4)).astype(np.float32)
KILLS = int(os.environ.get("JOURNAL_KILLS", 6))


def knn(rng, **changes):
    parameters = {"screening_sigma": 3.0, "threshold": 3.0, "vote_sigma": 2.0, "n_classes": 3, "max_labels": 12}
    return mx.PrivateKNN(10, 0.5, **{**parameters, **changes}, rng=rng).fit(X, Y)


def sets(rng, k=10, classes=3):
    return mx.PrivateKNN(k, 0.5, vote_sigma=2.0, clip=1.5, max_labels=12, rng=rng).fit(X, SETS[:, :classes])


def gnmax(rng, **changes):
    parameters = {"n_teachers": 5, "sigma": 1.0, "screening_sigma": 2.0, "threshold": 2.0, "max_labels": 12}
    return mx.GNMax(**{**parameters, **changes}, make_teacher=GaussianNB, n_classes=3, rng=rng).fit(X, Y)


def lnmax(rng, **changes):
    parameters = {"n_teachers": 5, "scale": 1.0, "max_labels": 12}
    return mx.LNMax(**{**parameters, **changes}, make_teacher=GaussianNB, n_classes=3, rng=rng).fit(X, Y)


def source_of(kind, seen):
    """A source that calls `seen` for every release before its noise is drawn."""

    class Telling({"seeded": Seeded, "system": System}[kind]):
        def gaussian(self, sigma, size, grain):
            seen(size)
            return super().gaussian(sigma, size, grain)

        def laplace(self, scale, size, grain):
            seen(size)
            return super().laplace(scale, size, grain)

    return Telling(np.random.default_rng(5)) if kind == "seeded" else Telling()


def two_runs(make, kind, journal, tell, size):
    """Two runs of one model; sends (run, query, release) before the noise of each release is drawn."""
    at = [0, 0]
    model = make(source_of(kind, lambda drawn: tell((f"run {at[0]}", at[1], "screening" if drawn == 1 else "vote"))))
    outs = []
    for run, queries in enumerate((QUERIES[:size], QUERIES[size : 2 * size])):
        at[:] = run, 0
        outs.append(model.label(queries, journal, lambda done: at.__setitem__(1, done)))
    return model, outs


def ignored(_):
    """A callback that does nothing."""


def on_disk(path):
    """Charges (part, query, release), and answers by (part, query)."""
    with closing(Journal(path)) as journal, journal._database.transaction() as run:
        charges = set(run("SELECT part, query, text FROM log WHERE kind = 'charge'"))
        answers = run("SELECT part, query, text FROM log WHERE kind = 'answer'")
        return charges, {(part, query): answer for part, query, answer in answers}


def spent_on(charges, part, release):
    return sum(each[0] == part and each[2] == release for each in charges)


def check_finished(make, kind, size, charges, kept, labels, compositions):
    """The result is that of a run without interruption, or keeps what was recorded and the plan."""
    if kind == "seeded":
        _, expected = two_runs(make, kind, None, ignored, size)
        for found, composition, out in zip(labels, compositions, expected, strict=True):
            assert np.array_equal(found, out.labels)
            assert composition == out.composition
    model = make(None)
    for run, (found, composition) in enumerate(zip(labels, compositions, strict=True)):
        part = f"run {run}"
        votes, screenings = spent_on(charges, part, "vote"), spent_on(charges, part, "screening")
        assert votes <= model.max_labels
        assert screenings <= size
        screening = ac.Composition() if model.screening_event is None else screenings * model.screening_event
        assert composition == screening + votes * model.vote_event
        for (where, query), answer in kept.items():
            if where == part:
                label = found[query].tolist()
                assert label == (as_label(answer) if answer != "null" else -1)


def as_label(text):
    """A recorded label, or label set."""
    return [int(each) for each in text.strip("[]").split(",")] if text[0] == "[" else int(text)


# --- killed --------------------------------------------------------------------------------------------


def killed_child(path, kind, pipe):
    """Runs in a child process until it ends or is killed."""
    pipe.send("begun")
    with Journal(path) as journal:
        _, outs = two_runs(knn, kind, journal, pipe.send, 30)
    pipe.send([(out.labels, dict(out.composition.entries)) for out in outs])


def run_child(path, kind, seconds):
    """(whether it was killed, draws that it sent, its result, its seconds)."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=killed_child, args=(path, kind, writer))
    process.start()
    writer.close()
    assert reader.recv() == "begun"
    begun = time.perf_counter()
    process.join(seconds)
    ran = time.perf_counter() - begun
    process.kill()
    process.join()
    told = []
    with closing(reader):
        while reader.poll():
            try:
                told.append(reader.recv())
            except EOFError:
                break
    killed = process.exitcode == -signal.SIGKILL
    process.close()
    result = told.pop() if told and isinstance(told[-1], list) else None
    assert killed or result is not None
    return killed, set(told), result, ran


@pytest.mark.each_run(1)
@pytest.mark.parametrize("kind", ["seeded", "system"])
def test_killed_at_any_moment(kind, tmp_path):
    """SIGKILL at random moments, and again when the run goes on. JOURNAL_KILLS=500 kills 1000 processes."""
    rng = np.random.default_rng(1)
    seconds = min(run_child(tmp_path / f"whole {i}", kind, 60)[-1] for i in range(3))
    kills = journals = 0
    while kills < KILLS:
        path = tmp_path / str(journals)
        journals += 1
        drawn, charges, kept, result = set(), set(), {}, None
        while result is None:
            killed, told, result, ran = run_child(path, kind, rng.uniform(0, seconds))
            if not killed and not drawn:
                seconds = min(seconds, ran)  # a whole run, if the machine is less busy than before
            kills += killed
            assert kind == "seeded" or not drawn & told, "drawn twice, and charged once"
            drawn |= told
            before, (charges, answers) = charges, on_disk(path)
            if result is None and charges == before:
                seconds *= 1.2  # the machine is slower than before
            assert drawn <= charges, "drawn, and not charged"
            assert kept.items() <= answers.items(), "answered, and not kept"
            kept = answers
        labels, entries = zip(*result, strict=True)
        check_finished(knn, kind, 30, charges, kept, labels, [ac.Composition(each.items()) for each in entries])


# --- faults --------------------------------------------------------------------------------------------


class Fault(Exception):
    """The injected fault."""


class Tripwire:
    """Wraps a journal's database and raises at a given moment: before or after a write or commit, or at a draw."""

    def __init__(self, database, moment=None):
        self.database, self.moment, self.passed = database, moment, 0
        self.told, self.close = set(), database.close

    def step(self):
        self.passed += 1
        if self.passed == self.moment:
            raise Fault

    def tell(self, draw):
        self.told.add(draw)
        self.step()

    @contextmanager
    def transaction(self):
        with self.database.transaction() as run:

            def wired(sql, *values):
                writes = sql.startswith(("INSERT", "UPDATE"))
                for _ in range(writes):
                    self.step()
                return run(sql, *values)

            yield wired
        self.step()


FAULTY = [(knn, "seeded"), (knn, "system"), (gnmax, "system"), (gnmax, "seeded")]
FAULTY += [(make, kind) for make in (sets, lnmax) for kind in ("seeded", "system")]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("make", "kind"), audit_after(3, FAULTY))
def test_a_fault_at_every_write_and_draw(make, kind, tmp_path):
    moment, gone_off = 0, True
    while gone_off:
        moment += 1
        path = tmp_path / str(moment)
        with Journal(path) as journal:
            wire = journal._database = Tripwire(journal._database, moment)
            try:
                two_runs(make, kind, journal, wire.tell, 3)
                gone_off = False
            except Fault:
                pass
        charges, kept = on_disk(path)
        assert wire.told <= charges
        told = set()
        with Journal(path) as journal:
            _, outs = two_runs(make, kind, journal, told.add, 3)
        assert kind == "seeded" or not told & wire.told
        charges, answers = on_disk(path)
        assert kept.items() <= answers.items()
        labels, compositions = [out.labels for out in outs], [out.composition for out in outs]
        check_finished(make, kind, 3, charges, kept, labels, compositions)
    assert moment > 30


def test_a_full_disk(tmp_path):
    """The error names the failure, `spent_` covers what was drawn, and the run ends once there is room."""
    expected = knn(5, max_labels=None).label(QUERIES)
    model = knn(5, max_labels=None)
    with Journal(tmp_path / "journal") as journal:
        ((pages,),) = journal._database._connection.execute("PRAGMA page_count")
        journal._database._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(JournalError, match=r"journal: database or disk is full"):
            model.label(QUERIES, journal)
    charges, answers = on_disk(tmp_path / "journal")
    assert 0 < len(answers) < 60
    assert sum(model.spent_.entries.values()) >= len(charges)
    with Journal(tmp_path / "journal") as journal:
        out = knn(5, max_labels=None).label(QUERIES, journal)
    assert np.array_equal(out.labels, expected.labels)
    assert out.composition == expected.composition


def test_a_lost_vote_counts_towards_max_labels(tmp_path):
    """A query that was charged but has no answer on disk stays unanswered, unless its noise can be repeated."""

    def lost(size):
        if size == 3:
            raise Fault

    for _ in range(3):
        with Journal(tmp_path / "journal") as journal, pytest.raises(Fault):
            knn(source_of("system", lost), threshold=-50.0, max_labels=4).label(QUERIES, journal)
    with Journal(tmp_path / "journal") as journal:
        out = knn(None, threshold=-50.0, max_labels=4).label(QUERIES, journal)
    assert out.labels[:3].tolist() == [-1, -1, -1]
    assert out.answered.nonzero()[0].tolist() == [3]
    assert out.composition.entries[knn(None).vote_event] == 4


# --- read again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["seeded", "system"])
@pytest.mark.parametrize("make", [knn, sets, gnmax, lnmax])
def test_a_finished_run_is_read_again_without_a_draw(make, kind, tmp_path):
    with Journal(tmp_path / "journal") as journal:
        _, first = two_runs(make, kind, journal, ignored, 20)
    before = on_disk(tmp_path / "journal")

    def refuse(draw):
        raise AssertionError(draw)

    with Journal(tmp_path / "journal") as journal:
        model, again = two_runs(make, kind, journal, refuse, 20)
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.labels, other.labels)
        assert np.array_equal(one.answered, other.answered)
        assert one.composition == other.composition
        assert one.planned == other.planned
    assert model.spent_ == first[0].composition + first[1].composition
    assert on_disk(tmp_path / "journal") == before


def test_a_journal_changes_nothing(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        _, found = two_runs(knn, "seeded", journal, ignored, 30)
    _, expected = two_runs(knn, "seeded", None, ignored, 30)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one.labels, other.labels)
        assert one.composition == other.composition


@pytest.mark.parametrize("bits", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_the_state_of_every_generator_survives(bits, tmp_path):
    def generator():
        return np.random.Generator(getattr(np.random, bits)(3))

    expected = knn(generator()).label(QUERIES).labels
    with Journal(tmp_path / "journal") as journal:
        model = knn(generator())
        with pytest.raises(Fault):
            model.label(QUERIES, journal, progress=fault_after(10))
    with Journal(tmp_path / "journal") as journal:
        assert np.array_equal(knn(generator()).label(QUERIES, journal).labels, expected)


def fault_after(queries):
    def progress(done):
        if done == queries:
            raise Fault

    return progress


@pytest.mark.each_run(2)
@pytest.mark.parametrize("kind", ["seeded", "system"])
@pytest.mark.parametrize("stop", [1, 7, 8, 9, 15])
def test_rounds_go_on(kind, stop, tmp_path):
    """Interrupted in either round, or between them."""

    def run(path, progress=None):
        labeller = mx.PrivateKNN(10, 0.5, None, vote_sigma=2.0, n_classes=3, rng=7 if kind == "seeded" else None)
        with Journal(path) as journal:
            return label_in_rounds(
                labeller,
                X,
                Y,
                QUERIES[:20],
                queries=8,
                rounds=2,
                make_student=lambda: NetworkStudent(hidden=4, max_iter=5),
                journal=journal,
                progress=progress,
            )

    with pytest.raises(Fault):
        run(tmp_path / "journal", fault_after(stop))
    charges, kept = on_disk(tmp_path / "journal")
    assert len(kept) == stop
    out = run(tmp_path / "journal")
    charges, answers = on_disk(tmp_path / "journal")
    assert kept.items() <= answers.items()
    assert out.composition == len(charges) * ac.PoissonSubsampled(ac.GNMax(2.0), 0.5)
    assert len(charges) == 16
    if kind == "seeded":
        whole = run(tmp_path / "whole")
        assert np.array_equal(out.labels, whole.labels)
        assert out.composition == whole.composition
        assert np.array_equal(out.student.predict(X), whole.student.predict(X))


def two_rounds(path, stop=None, choose="central", make_student=lambda: NetworkStudent(hidden=4, max_iter=5)):
    labeller = mx.PrivateKNN(10, 0.5, None, vote_sigma=2.0, n_classes=3)
    progress = None if stop is None else fault_after(stop)
    how = {"queries": 8, "rounds": 2, "choose": choose, "make_student": make_student}
    with Journal(path) as journal:
        return label_in_rounds(labeller, X, Y, QUERIES[:20], **how, features="standardised", journal=journal,
                               progress=progress)  # fmt: skip


def own_layer():
    """A student whose layer is its own, so that no journal can keep it."""

    class Own(NetworkStudent):
        def transform(self, X):
            return super().transform(X) + 1

    return Own(hidden=4, max_iter=5)


@pytest.mark.parametrize("stop", [3, 8, 11, None])
@pytest.mark.parametrize("student", ["known", "unknown"])
def test_rounds_go_on_on_another_processor(student, stop, tmp_path, monkeypatch):
    """There last bits of features and of the student differ, and with them the queries that it would choose."""
    how = {} if student == "known" else {"make_student": own_layer}
    seen, label = [], mx.PrivateKNN.label
    monkeypatch.setattr(
        mx.PrivateKNN, "label", lambda self, queries, *more: seen.append(queries) or label(self, queries, *more)
    )
    if stop is None:
        first = two_rounds(tmp_path / "journal", **how)
    else:
        with pytest.raises(Fault):
            two_rounds(tmp_path / "journal", stop, **how)
    began, seen[:] = list(seen), []
    kept = on_disk(tmp_path / "journal")[1]
    fit, central = NetworkStudent.fit, rounds.central_points

    def fit_elsewhere(self, X, y):
        found = fit(self, X, y)
        found.network_.coefs_[0] *= np.float32(1 + 1e-6)
        return found

    monkeypatch.setattr(NetworkStudent, "fit", fit_elsewhere)
    monkeypatch.setattr(rounds, "central_points", lambda points, count: np.roll(central(points, count), 1))
    standardise = features.standardise
    monkeypatch.setattr(features, "standardise", lambda public: standardise(public * np.float32(1 + 1e-6)))
    out = two_rounds(tmp_path / "journal", **how)
    charges, answers = on_disk(tmp_path / "journal")
    assert kept.items() <= answers.items()
    assert len(charges) == 16
    for number, queries in enumerate(began):
        assert np.allclose(seen[number], queries, rtol=1e-3, atol=1e-3)
    if len(began) == 2 and student == "known":
        assert np.array_equal(seen[1], began[1])
    if stop is None:
        assert np.array_equal(out.labels, first.labels)


def test_rounds_of_an_earlier_version_go_on(tmp_path, monkeypatch):
    """Its journal knows a run by the features of records and queries, and does not hold the choice of queries."""
    with monkeypatch.context() as earlier:
        earlier.setattr(Journal, "recall", lambda self, about, arrays: arrays)
        earlier.setattr(Labeller, "_made_of", property(lambda self: None, lambda self, value: None))
        with pytest.raises(Fault):
            two_rounds(tmp_path / "journal", 11)
    kept = on_disk(tmp_path / "journal")[1]
    two_rounds(tmp_path / "journal")
    charges, answers = on_disk(tmp_path / "journal")
    assert kept.items() <= answers.items()
    assert len(charges) == 16


def test_rounds_that_ask_otherwise_are_refused(tmp_path):
    two_rounds(tmp_path / "journal")
    assert "other choose; accepted: the same run" in refusal(lambda: two_rounds(tmp_path / "journal", choose="first"))


# --- refused -------------------------------------------------------------------------------------------


def refusal(use):
    """The message of a refused journal, which must be one line."""
    with pytest.raises(JournalError) as caught:
        use()
    text = str(caught.value)
    assert "\n" not in text
    assert "; accepted: " in text
    return text


@pytest.mark.parametrize(
    ("make", "other", "queries", "words"),
    [
        (knn, lambda: knn(6), QUERIES, "seed"),
        (knn, lambda: knn(None), QUERIES, "seed"),
        (knn, lambda: knn(5), QUERIES[:20], "labels, queries"),
        (knn, lambda: knn(5), QUERIES[::-1], "queries"),
        (knn, lambda: knn(5, vote_sigma=2.5), QUERIES, "vote"),
        (knn, lambda: knn(5, screening_sigma=2.5), QUERIES, "screening"),
        (knn, lambda: knn(5, threshold=4.0), QUERIES, "screening"),
        (knn, lambda: knn(5, screening_sigma=None), QUERIES, "screening"),
        (knn, lambda: knn(5, max_labels=13), QUERIES, "max_labels"),
        (knn, lambda: knn(5, max_labels=None), QUERIES, "max_labels"),
        (knn, lambda: knn(5, n_classes=4), QUERIES, "n_classes"),
        # the events of the votes are equal: the runs differ only in k, or in the width of a label set
        (sets, lambda: sets(5, k=9), QUERIES, "n_neighbors"),
        (sets, lambda: sets(5, classes=2), QUERIES, "labels, n_classes, private"),
        (gnmax, lambda: gnmax(5, sigma=1.5), QUERIES, "vote"),
        (lnmax, lambda: lnmax(5, scale=1.5), QUERIES, "vote"),
        (lnmax, lambda: gnmax(5, screening_sigma=None), QUERIES, "mechanism, vote"),
    ],
)
def test_another_run_is_refused_by_what_differs(make, other, queries, words, tmp_path):
    with Journal(tmp_path / "journal") as journal:
        make(5).label(QUERIES, journal)
    before = on_disk(tmp_path / "journal")
    model = other()
    with Journal(tmp_path / "journal") as journal:
        assert f"other {words}; accepted: the same run" in refusal(lambda: model.label(queries, journal))
    assert model.spent_ == ac.Composition()
    assert on_disk(tmp_path / "journal") == before


def test_other_teachers_are_refused(tmp_path):
    """The state of the generator and the price of a vote do not depend on the number of teachers."""
    with Journal(tmp_path / "journal") as journal:
        lnmax(5).label(QUERIES, journal)
    with Journal(tmp_path / "journal") as journal:
        assert "other n_teachers;" in refusal(lambda: lnmax(5, n_teachers=6).label(QUERIES, journal))


def test_the_same_numbers_are_the_same_run(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        first = knn(5, vote_sigma=2, max_labels=12).label(QUERIES, journal)
    with Journal(tmp_path / "journal") as journal:
        again = knn(5, vote_sigma=np.float64(2.0), max_labels=np.int64(12)).label(QUERIES.astype(float), journal)
    assert np.array_equal(first.labels, again.labels)


def test_runs_in_another_order_are_refused(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        knn(5).label(QUERIES, journal)
        lnmax(5).label(QUERIES, journal)
    with Journal(tmp_path / "journal") as journal:
        assert "other mechanism" in refusal(lambda: lnmax(5).label(QUERIES, journal))


def opening_child(path, pipe):
    """Sends from a child process why it could not open a journal."""
    try:
        Journal(path).close()
    except JournalError as error:
        pipe.send(str(error))
    else:
        pipe.send("opened")


def test_one_process_at_a_time(tmp_path, monkeypatch):
    def opened_elsewhere():
        reader, writer = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=opening_child, args=(tmp_path / "journal", writer))
        process.start()
        with closing(reader), closing(writer):
            text = reader.recv()
        process.join()
        return text

    with Journal(tmp_path / "journal") as journal:
        assert "another process holds it" in opened_elsewhere()
        connect, waits = sqlite3.connect, []
        with monkeypatch.context() as change:
            change.setattr(sqlite3, "connect", lambda *at, **how: waits.append(how["timeout"]) or connect(*at, **how))
            assert "another process holds it" in refusal(lambda: Journal(tmp_path / "journal"))
        assert waits == [0.0], "at once"
        knn(5).label(QUERIES[:2], journal)
        assert "another process holds it" in opened_elsewhere()
    assert opened_elsewhere() == "opened"


def test_what_is_not_a_journal(tmp_path):
    (tmp_path / "text").write_text("not a database" * 100)
    (tmp_path / "short").write_text("hello")
    with closing(sqlite3.connect(tmp_path / "other")) as database:
        database.execute("CREATE TABLE parts (part TEXT PRIMARY KEY, header TEXT NOT NULL)")
    for name, words in {
        "text": "not a database",
        "short": "not a database",
        "other": "a database of something else",
    }.items():
        before = (tmp_path / name).read_bytes()
        assert words in refusal(lambda path=tmp_path / name: Journal(path))
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("name", [".", "missing/journal", "file/journal"])
def test_what_cannot_be_written(name, tmp_path):
    (tmp_path / "file").touch()
    assert "unable to open" in refusal(lambda: Journal(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_read_only(tmp_path):
    Journal(tmp_path / "journal").close()
    (tmp_path / "journal").chmod(0o400)
    refusal(lambda: Journal(tmp_path / "journal"))


def test_every_name_is_a_file(tmp_path, monkeypatch):
    """SQLite takes the name ":memory:" for a database in memory, which would not be durable."""
    monkeypatch.chdir(tmp_path)
    Journal(":memory:").close()
    assert (tmp_path / ":memory:").exists()


def test_a_closed_journal_is_refused_before_anything_is_spent(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        pass
    model = knn(5)
    assert "closed" in refusal(lambda: model.label(QUERIES, journal))
    assert model.spent_ == ac.Composition()


def test_an_empty_file_and_no_queries(tmp_path):
    (tmp_path / "journal").touch()
    for _ in range(2):
        with Journal(tmp_path / "journal") as journal:
            assert knn(5).label([], journal).composition == ac.Composition()


# --- forks, threads, copies ------------------------------------------------------------------------------


def test_a_fork_cannot_charge(tmp_path):
    """Two processes would both draw after one charge: 60 releases for 30 charges."""
    with Journal(tmp_path / "journal") as journal:
        part = journal.part({"a": 1})
        part.charge(0, "vote")
        for use in (
            lambda: part.charge(1, "vote"),
            lambda: part.answer(0, 3, None),
            lambda: journal.part({"a": 2}),
            lambda: knn(None).label(QUERIES[:1], journal),
        ):
            child = os.fork()
            if child == 0:
                try:
                    use()
                except UsageError:
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(UsageError, match="a copy of a Journal"):
                copied(journal)
        part.charge(1, "vote")
    charges, answers = on_disk(tmp_path / "journal")
    assert charges == {("run 0", 0, "vote"), ("run 0", 1, "vote")}
    assert answers == {}


def test_threads_take_turns(tmp_path):
    """Every charge is recorded exactly once."""
    with Journal(tmp_path / "journal") as journal:
        part, granted = journal.part({}), []

        def charge():
            granted.extend([part.charge(query, "vote") for query in range(100)])

        threads = [Thread(target=charge) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert sum(granted) == 100
    assert len(on_disk(tmp_path / "journal")[0]) == 100
    with Journal(tmp_path / "journal") as journal, journal._database.transaction() as run:
        assert list(run("SELECT count(*), max(number) FROM log")) == [(101, 101)]


def test_a_keyed_digest_is_of_the_arrays_and_of_the_journal(tmp_path):
    with Journal(tmp_path / "a") as journal, Journal(tmp_path / "b") as other:
        digest = journal.keyed_digest
        assert digest(X, Y) == digest(X.copy(), Y.copy()) == digest(np.asfortranarray(X), Y.tolist())
        several = [
            *(digest(X, Y), digest(Y, X), digest(X), digest(X.T, Y), digest(X.astype(float), Y), digest(X[::-1], Y)),
            *(digest(X[:, :2], X[:, 2:]), digest(X, Y, []), other.keyed_digest(X, Y), digest()),
        ]
        assert len(set(several)) == len(several)
        assert {len(each) for each in several} == {64}
        with pytest.raises(ac.ParameterError, match="array of object to be digested; accepted: numbers, or fixed text"):
            digest(np.array([X, None], dtype=object))
    with Journal(tmp_path / "a") as journal:
        assert journal.keyed_digest(X, Y) == several[0]


@pytest.mark.parametrize("private", [(X[::-1], Y), (X, (Y + 1) % 3)])
def test_other_private_records_are_refused(private, tmp_path):
    with Journal(tmp_path / "journal") as journal:
        knn(None).label(QUERIES[:2], journal)
    with Journal(tmp_path / "journal") as journal:
        assert "other private" in refusal(lambda: knn(None).fit(*private).label(QUERIES[:2], journal))


def test_an_older_copy_and_a_cut_one_are_refused(tmp_path):
    path = tmp_path / "journal"
    with Journal(path) as journal:
        part = journal.part({})
        part.charge(0, "vote")
        shutil.copyfile(path, tmp_path / "old")
        part.charge(1, "vote")
    new = path.read_bytes()
    shutil.copyfile(tmp_path / "old", path)
    assert "it was replaced by an older copy" in refusal(lambda: Journal(path))
    path.write_bytes(new)
    assert len(on_disk(path)[0]) == 2
    for sql, left in (
        ("DELETE FROM log WHERE number = 2", "damaged"),
        ("DELETE FROM log WHERE number = 3", "damaged"),
        ("DELETE FROM head", "damaged"),
        ("UPDATE log SET query = 5 WHERE number = 2", "damaged"),
        ("CREATE TABLE parts (part TEXT)", "made by an earlier version"),
    ):
        shutil.copyfile(path, tmp_path / "copy")
        with closing(sqlite3.connect(tmp_path / "copy")) as database, database:
            database.execute(sql)
        assert left in refusal(lambda: Journal(tmp_path / "copy"))
    (tmp_path / "copy").write_bytes(new[: len(new) // 2])
    refusal(lambda: Journal(tmp_path / "copy"))
