"""A client's answers depend on its options and its ledger, never on records, labels or what servers state."""

import copy
import os
import pickle
import sqlite3
import threading
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from mechanisms.exclusive import UsageError
from mechanisms.federation.client import Client, label_sets, labels_within
from mechanisms.federation.ledger import Ledger, MemoryLedger
from mechanisms.federation.messages import (
    ClientCounts,
    DuplicateMessage,
    Kind,
    LateMessage,
    Message,
    MessageError,
    Reports,
    UnsuitableMessage,
    digest_of,
)
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.federation.targets import RECEIVED, Charge, Target, total_price
from mechanisms.federation.trust_models import ReleaseRequest, TrustModel, calibrate_release

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)).astype(np.float32)
QUERIES = RNG.normal(size=(4, 2)).astype(np.float32)
SESSION = bytes(16)
TARGETS = {
    "central": {},
    "local": {"max_epsilon": 5.0},
    "shuffle": {"max_epsilon": 1.0, "delta": 1e-6, "crowd": 1000},
}


def client(y, model="local", **changed):
    return Client(X[: len(y)], y, 1, model, **{"rng": 0, **TARGETS[model], **changed})


def opening(protocol="randomized-response", parameters=(1.0,), classes=3, number=1, session=SESSION, **changed):
    setup = RoundSetup(QUERIES, classes, protocol=protocol, parameters=parameters, **changed)
    return setup.pack(number, session)


def outcome(one, ask):
    """What the asking server sees, apart from noise: kind and length of the answer, or the error."""
    try:
        message = Message.unpack(one.answer(ask))
    except ac.AccountantError as error:
        return type(error), str(error)
    return message.kind, len(message.payload)


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.audit
@pytest.mark.parametrize(
    ("model", "protocol", "parameters"),
    [("local", "randomized-response", (1e-9,)), ("shuffle", "collision", (1e-9, 9.0)), ("central", "counts", ())],
)
def test_no_label_is_found_by_bisection_on_the_number_of_classes(model, protocol, parameters):
    """Attack: setups with fewer and fewer classes at epsilon 1e-9. A refusal must not reveal the label."""
    told = set()
    for label in range(16):
        victim = client([label], model)
        seen, low, high = [], 1, 16
        for number in range(1, 5):
            classes = (low + high) // 2
            answered = outcome(victim, opening(protocol, parameters, classes, number))
            seen.append(answered)
            low, high = (low, classes) if isinstance(answered[0], Kind) else (classes + 1, high)
        told.add(tuple(seen))
    assert len(told) == 1
    assert {kind for ((kind, _), *_) in told} <= {Kind.REPORTS, Kind.COUNTS}


def test_a_round_is_held_against_the_client_s_own_number_of_classes():
    for label in (0, 2, 9):
        victim = client([label, 1], n_classes=3)
        for number, classes in enumerate((2, 4, 10), 1):
            with pytest.raises(UnsuitableMessage, match=f"{classes} classes; accepted: n_classes = 3"):
                victim.answer(opening(classes=classes, number=number))
        assert victim.spent_ == ac.Composition()
        assert victim.answer(opening())


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"queries": QUERIES[:, :1]}, "queries of 1 columns; accepted: 2"),
        ({"n_labels": 2}, "2 labels for each record; accepted: n_labels = 1"),
    ],
)
def test_a_setup_that_does_not_fit_the_options_is_refused(changed, match):
    setup = RoundSetup(**{"queries": QUERIES, "n_classes": 3, **changed})
    with pytest.raises(UnsuitableMessage, match=match):
        client([0, 1], "central").answer(setup.pack(1, SESSION))


# few values, as prices are cached and a new price of a shuffled round takes seconds
REQUESTS = {
    "local": [
        *(("randomized-response", (epsilon,)) for epsilon in (1e-9, 0.2, 1.0, 100.0, 700.0, -1.0)),
        *(("collision", (epsilon, buckets)) for epsilon in (0.2, 1.0, 500.0) for buckets in (1.0, 2.0, 9.0)),
        *(("separation", (epsilon,)) for epsilon in (1e-9, 1.0, 100.0)),
        *(("counts", ()), ("collision", (1.0,)), ("separation", ())),
    ]
}
REQUESTS["shuffle"] = REQUESTS["local"] + [
    ("shares", (scale, participants, 20.0, ratio))
    for scale in (0.05, 8.0)
    for participants in (1.0, 1000.0, 1001.0)
    for ratio in (0.01, 0.95)
]
REQUESTS["central"] = [*5 * [("counts", ())], *REQUESTS["shuffle"]]


@st.composite
def setups(draw, model):
    """Setups that a server may send to a client of that model: most fair, some without noise, some impossible."""
    protocol, parameters = draw(st.sampled_from(REQUESTS[model]))
    return {
        "protocol": protocol,
        "parameters": parameters,
        "classes": draw(st.sampled_from([1, 2, 3, 3, 3, 5])),
        "n_neighbors": draw(st.sampled_from([1, 1, 1, 2])),
        "n_labels": draw(st.sampled_from([1, 1, 1, 1, 2])),
    }


def asked(changed, number, session=SESSION):
    try:
        return opening(number=number, session=session, **changed)
    except ac.ParameterError:
        return b""


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_neighbours_answer_and_refuse_alike(data, tmp_path_factory):
    """With one record replaced, also by labels out of range, answers, refusals, lengths and ledgers agree."""
    model = data.draw(st.sampled_from(sorted(TARGETS)))
    n = data.draw(st.integers(1, 4))
    number = st.integers(-(2**46), 2**46).map(float)
    features = data.draw(st.lists(st.tuples(number, number), min_size=n + 1, max_size=n + 1))
    labels = data.draw(st.lists(st.integers(0, 9), min_size=n + 1, max_size=n + 1))
    classes = data.draw(st.sampled_from([None, 3]))
    asks = [
        asked(each, number) for number, each in enumerate(data.draw(st.lists(setups(model), min_size=1, max_size=3)), 1)
    ]
    # the number of messages with noise shares is random itself, so that it is not compared
    shares = [ask != b"" and RoundSetup.unpack(Message.unpack(ask)).protocol == "shares" for ask in asks]
    seen, folder = [], tmp_path_factory.mktemp("ledgers")
    for number, rows in enumerate(([*range(n)], [*range(n - 1), n])):
        ledger = folder / f"{number}.ledger"
        X, y = np.float32(features)[rows], np.array(labels)[rows]
        one = Client(X, y, 1, model, rng=0, **TARGETS[model], n_classes=classes, ledger=ledger)
        outcomes = [outcome(one, ask) for ask in asks]
        kinds = [
            each[:1] if hidden and each[0] is Kind.REPORTS else each
            for each, hidden in zip(outcomes, shares, strict=True)
        ]
        seen.append((kinds, list(rows_of(ledger)), one.spent_))
    assert seen[0] == seen[1]


def rows_of(path):
    if not path.exists():
        return
    database = sqlite3.connect(path)
    try:
        for table in ("answers", "charges"):
            yield from database.execute(f"SELECT * FROM {table} ORDER BY rowid")
    finally:
        database.close()


# --- targets -------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_no_server_brings_a_record_above_the_target_or_gets_bare_votes(data):
    """Well-formed setups of a malicious server over several sessions: the total price stays within the target."""
    model = data.draw(st.sampled_from(["local", "shuffle"]))
    delta = 1e-6 if model == "shuffle" else data.draw(st.sampled_from([0.0, 1e-6]))
    target = {**TARGETS[model], "max_epsilon": data.draw(st.sampled_from([0.3, 1.0, 5.0])), "delta": delta}
    victim = Client(X[:3], [0, 1, 7], 1, model, rng=0, **target)
    for number in range(1, 5):
        session = bytes([data.draw(st.integers(0, 1))]) * 16
        try:
            answer = Message.unpack(victim.answer(asked(data.draw(setups(model)), number, session)))
        except MessageError:
            continue
        assert answer.kind == Kind.REPORTS
        assert victim.spent_.releases
    spent = victim.spent_
    if len(spent):
        shares = any(isinstance(event, ac.ShuffledCounts) for event, _ in spent)
        width = 1e-2 if shares else 1e-3
        price = ac.epsilon(spent, delta, method="auto", tolerance=width, patience=RECEIVED)
        assert price.epsilon <= target["max_epsilon"]


@pytest.mark.parametrize(
    ("protocol", "parameters"),
    [
        ("shares", (0.05, 1000.0, 1e-6, 0.01)),
        ("shares", (0.05, 1e9, 1e-6, 0.01)),
        ("shares", (20.0, 2000.0, 100.0, 0.99)),
        ("randomized-response", (100.0,)),
        ("collision", (500.0, 9.0)),
        ("separation", (100.0,)),
    ],
)
def test_noise_that_is_none_is_refused(protocol, parameters):
    """Attacks: shares without noise, shares for more participants than there are, and reports at epsilon 100."""
    victim = client([0, 1, 2], "shuffle", max_epsilon=2.0)
    with pytest.raises(UnsuitableMessage, match=r"accepted|cannot be priced"):
        victim.answer(opening(protocol, parameters))
    assert victim.spent_ == ac.Composition()


FAIR = {
    "local": {"epsilon": 0.7, "delta": 0.0, "randomizer": "randomized-response"},
    "local, many": {"epsilon": 0.1, "delta": 0.0, "randomizer": "separation"},
    "local, delta": {"epsilon": 2.0, "delta": 1e-6},
    "shuffle": {"model": "shuffle", "delta": 1e-3, "records": 100},
    "shuffle, separation": {"model": "shuffle", "randomizer": "separation"},
    "shuffle, shares": {"model": "shuffle", "randomizer": "shares"},
}


SLOW = "shuffle, separation"
"""Its rounds are calibrated by twenty profiles of seconds each."""


@pytest.mark.each_run(2)
@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.audit] * (each == SLOW)) for each in FAIR])
def test_fair_rounds_are_answered_and_one_more_is_not(name):
    given = {"model": "local", "randomizer": "collision", "epsilon": 1.0, "delta": 1e-6, "records": 1000, **FAIR[name]}
    trust = TrustModel(given["model"], randomizer=given["randomizer"])
    records, asked_for = given["records"], Target(given["epsilon"], given["delta"])
    asked = ReleaseRequest(trust, asked_for, RoundSize(4, 3), rounds=3, records=records)
    release = calibrate_release(asked)
    target = {"max_epsilon": release.target.epsilon, "delta": release.target.delta}
    crowd = {"crowd": records} if release.model == "shuffle" else {}
    fair = client([0, 1, 2], release.model, **target, **crowd)
    asks = [release.setup(QUERIES).pack(number, SESSION) for number in range(1, 5)]
    for number, ask in enumerate(asks[:3], 1):
        fair.answer(ask)
        assert fair.spent_ == number * release.event
    with pytest.raises(UnsuitableMessage, match=r"brings a record's epsilon to .*; accepted: at most max_epsilon = "):
        fair.answer(asks[3])
    assert fair.spent_ == 3 * release.event


@pytest.mark.parametrize(
    ("model", "protocol", "parameters"),
    [
        ("central", "counts", ()),
        ("local", "randomized-response", (1.0,)),
        ("shuffle", "shares", (50.0, 1000.0, 1.0, 0.9)),
    ],
)
def test_no_server_fills_the_memory_of_a_client(monkeypatch, model, protocol, parameters):
    """Answers longer than what a server receives are refused before they are charged, and before they are made."""
    one = client(np.zeros(20, int), model, **({} if model == "central" else {"max_epsilon": 100.0}))
    ask = opening(protocol, parameters, classes=2**27)
    if model == "shuffle":  # what else it costs is not looked at here
        monkeypatch.setattr(Target, "check", lambda target, spent: None)
    assert outcome(one, ask)[0] is UnsuitableMessage
    assert "accepted: at most 1073741824" in outcome(one, ask)[1]
    assert one.spent_ == ac.Composition()
    assert outcome(one, opening(protocol, parameters))[0] in (Kind.COUNTS, Kind.REPORTS)


def test_votes_for_many_queries_are_counted_in_little_memory():
    """k = s = 2^13 for 4000 records: all votes at once took 8 bytes for each of 33 million, twice."""
    records, queries = np.zeros((4000, 1), np.float32), np.arange(2**13, dtype=np.float32)[:, None]
    one = Client(records, np.zeros(4000, int), 1)
    ask = RoundSetup(queries, 1, 2**13).pack(1, bytes(16))
    tracemalloc.start()
    try:
        counts = ClientCounts.unpack(Message.unpack(one.answer(ask)).payload).counts
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (counts == 4000).all()
    assert held < 250e6


def test_reports_that_need_too_many_votes_are_refused_before_the_charge(monkeypatch):
    """The answer would be short: 20 reports of 150 bytes. Of a setup that is refused nothing stays."""
    monkeypatch.setattr("mechanisms.federation.client.LARGEST_PAYLOAD", 9000)
    one = client(np.zeros(20, int), max_epsilon=100.0)
    refused = "a setup whose votes and counts take 9.76e+03 bytes; accepted: at most 9000"
    assert outcome(one, opening(classes=300)) == (UnsuitableMessage, refused)
    assert one.spent_ == ac.Composition()
    assert outcome(one, opening(classes=200))[0] is Kind.REPORTS


def test_pure_epsilons_are_added_exactly():
    assert total_price(10 * ac.PureDP(0.1, ac.Adjacency.REPLACE), 0.0) == 10 * Fraction(0.1) > 1
    once = client([0], max_epsilon=1.0)
    once.answer(opening(parameters=(1.0,)))
    with pytest.raises(UnsuitableMessage, match="epsilon to 1; accepted: at most max_epsilon = 1"):
        once.answer(opening(parameters=(1e-9,), number=2))


@pytest.mark.parametrize(
    ("model", "changed", "match"),
    [
        ("local", {"max_epsilon": None}, "max_epsilon = None in the local model"),
        ("local", {"max_epsilon": float("inf")}, "max_epsilon = inf"),
        ("local", {"max_epsilon": 0}, "max_epsilon = 0"),
        ("local", {"delta": 1.0}, "delta = 1"),
        ("local", {"crowd": 5}, "crowd = 5 in the local model"),
        ("local", {"rng": None}, "ledger = None without a seed"),
        ("local", {"ledger": 3}, "ledger = 3"),
        ("local", {"n_classes": 0}, "n_classes = 0"),
        ("local", {"n_labels": 2}, "1 labels a record; accepted: n_labels = 2"),
        ("local", {"ids": [1]}, "ids of shape"),
        ("local", {"ids": [-1, 2]}, "ids of shape"),
        ("shuffle", {"max_epsilon": None}, "max_epsilon = None in the shuffle model"),
        ("shuffle", {"delta": 0.0}, "delta = 0 in the shuffle model"),
        ("shuffle", {"crowd": None}, "crowd = None in the shuffle model"),
        ("shuffle", {"crowd": 0}, "crowd = 0"),
        ("central", {"max_epsilon": 1.0}, "max_epsilon = 1.0 in the central model"),
        ("central", {"delta": 0.1}, "delta = 0.1 in the central model"),
        ("central", {"crowd": 5}, "crowd = 5 in the central model"),
    ],
)
def test_options_that_cannot_be_are_named(model, changed, match):
    with pytest.raises(ac.ParameterError, match=match) as caught:
        client([0, 1], model, **changed)
    assert "\n" not in str(caught.value)
    assert "accepted" in str(caught.value)


# --- labels --------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 12), min_size=2, max_size=2, unique=True), min_size=1), st.integers(2, 9))
def test_labels_outside_are_replaced_and_the_others_kept(rows, classes):
    labels = np.sort(np.array(rows), axis=1)
    within = labels_within(labels, classes)
    assert (within < classes).all()
    assert (np.diff(within, axis=1) > 0).all()
    for before, after in zip(labels, within, strict=True):
        assert set(before[before < classes]) <= set(after)
    assert labels_within(labels[:, :1], 1).tolist() == [[0]] * len(rows)


@pytest.mark.parametrize("label", [np.uint64(2**64 - 1), np.uint64(2**63), 2.0**63, 1e300, np.inf])
def test_labels_beyond_all_integers_are_replaced_like_others(label):
    """A label that overflows would give an entry or an error, depending on the query that is nearest to its record."""
    for rows in (X[:1], X[1:2], QUERIES[:1], QUERIES[-1:]):
        one = Client(rows, np.array([label]), 1, "local", **{"rng": 0, **TARGETS["local"]})
        other = Client(rows, np.array([3]), 1, "local", **{"rng": 0, **TARGETS["local"]})
        assert one.answer(opening()) == other.answer(opening())


@pytest.mark.parametrize("sets", [False, True])
def test_a_record_moves_as_many_counts_whatever_its_label(sets):
    """The sensitivity stays 2 k r if a label is not among the round's classes."""
    size = 2 if sets else 1
    tables = []
    for label in (0, 9):
        y = [[1, 0] + 7 * [0] + [1], [0, 1] + 7 * [0] + [1]] if sets else [1, label]
        answer = client(np.array(y), "central", n_labels=size).answer(
            opening("counts", (), n_neighbors=2, n_labels=size)
        )
        table = ClientCounts.unpack(Message.unpack(answer).payload)
        assert table.counts.sum() == 2 * 2 * size
        tables.append(table.counts)
    assert np.abs(tables[0] - tables[1]).sum() <= 2 * 2 * size


# --- memory --------------------------------------------------------------------------------------------


def test_a_restart_forgets_nothing(tmp_path):
    """Attack: the same setup for a client that is restarted again and again."""
    answered = 0
    for _ in range(5):
        try:
            client([0, 1], rng=None, ledger=tmp_path / "ledger").answer(opening())
            answered += 1
        except DuplicateMessage:
            pass
    assert answered == 1
    again = client([0, 1], rng=None, ledger=str(tmp_path / "ledger"))
    assert again.spent_ == 1 * ac.RandomizedResponse(0.5, bits=2, adjacency=ac.Adjacency.REPLACE)
    for number in range(2, 6):
        client([0, 1], rng=None, ledger=Ledger(tmp_path / "ledger")).answer(opening(number=number))
    with pytest.raises(UnsuitableMessage, match="epsilon to 6; accepted: at most max_epsilon = 5"):
        again.answer(opening(session=b"another session!"))
    with pytest.raises(LateMessage):
        again.answer(opening(number=4))


@pytest.mark.audit
@pytest.mark.parametrize("model", ["shuffle", "local"])
def test_a_total_that_is_not_a_sum_is_priced_over_restarts(tmp_path, model):
    """With a delta the composition of all answers is priced, whichever process gave them."""
    target = {"max_epsilon": 1.0, "delta": 1e-6}
    reports = ("collision", (2.0, 9.0)) if model == "shuffle" else ("randomized-response", (0.05,))
    answered = 0
    for number in range(1, 200):
        try:
            client([0, 1], model, **target, rng=None, ledger=tmp_path / "ledger").answer(
                opening(*reports, session=number.to_bytes(16, "little"))
            )
            answered += 1
        except UnsuitableMessage:
            break
    spent = Ledger(tmp_path / "ledger").spent()
    assert spent.releases == answered > 5
    assert ac.epsilon(spent, 1e-6, method="auto", tolerance=1e-3).epsilon <= 1.0
    (event,) = spent.entries
    assert ac.epsilon((answered + 1) * event, 1e-6, method="auto", tolerance=1e-3).epsilon > 1.0


def test_what_was_charged_and_lost_is_not_given_again(tmp_path, monkeypatch):
    lost = client([0, 1], rng=None, ledger=tmp_path / "ledger")

    def power_cut(*_):
        raise RuntimeError("power cut")

    monkeypatch.setattr(lost._source, "words", power_cut)
    with pytest.raises(RuntimeError):
        lost.answer(opening())
    assert Ledger(tmp_path / "ledger").spent().releases == 1
    with pytest.raises(DuplicateMessage):
        client([0, 1], rng=None, ledger=tmp_path / "ledger").answer(opening())


def test_nothing_is_drawn_where_nothing_can_be_charged(tmp_path):
    unlucky = client([0, 1], rng=0, ledger=tmp_path)  # a directory
    before = unlucky._source.state()
    with pytest.raises(ac.AccountantError, match="accepted: a ledger"):
        unlucky.answer(opening())
    assert unlucky._source.state() == before


@pytest.mark.parametrize("changed", [{}, {"rng": None, "ledger": "memory"}])
def test_a_client_belongs_to_one_process_and_is_not_copied(changed):
    changed = {**changed, **({"ledger": MemoryLedger()} if changed else {})}
    used = client([0, 1], **changed)
    used.answer(opening())
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError):
            make(used)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            used.answer(opening(number=2))
            os.write(writer, b"answered")
        except UsageError:
            os.write(writer, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"refused"
    assert used.answer(opening(number=2))


def test_a_ledger_in_memory_is_not_in_two_processes_even_if_it_was_not_used():
    unused = client([0, 1], rng=None, ledger=MemoryLedger())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            unused.answer(opening())
            os.write(writer, b"answered")
        except UsageError:
            os.write(writer, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"refused"


def test_threads_are_answered_one_after_the_other():
    """A round that many threads ask for at once is answered once; of many rounds each is charged once."""
    many = client([0, 1], max_epsilon=1e3)
    results = []

    def ask(number):
        results.append(outcome(many, opening(number=number))[0])

    for numbers in (8 * [1], range(2, 10)):
        threads = [threading.Thread(target=ask, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results[:8].count(Kind.REPORTS) == 1
    assert many.spent_.releases == results.count(Kind.REPORTS)


def test_an_answer_bears_the_digest_of_all_that_was_asked():
    ask = opening()
    answer = Message.unpack(client([0, 1]).answer(ask))
    assert answer.digest == digest_of(ask)
    other = opening(parameters=(1.0 + 1e-12,))
    assert Message.unpack(client([0, 1]).answer(other)).digest != answer.digest


def test_counts_leave_only_where_the_server_is_trusted():
    for model in ("local", "shuffle"):
        with pytest.raises(UnsuitableMessage, match=f"protocol counts in the {model} model"):
            client([0, 1], model).answer(opening("counts", ()))
    assert Message.unpack(client([0, 1], "central").answer(opening("counts", ()))).kind == Kind.COUNTS
    assert Reports.unpack(Message.unpack(client([0, 1]).answer(opening())).payload).records == 2


def test_counts_have_no_price():
    with pytest.raises(UnsuitableMessage, match="protocol counts; accepted: one that asks for reports"):
        _ = Charge("counts", (), 4, 3, 1, 1).event


def test_targets_are_checked():
    for epsilon, delta in ((0.0, 0.0), (-1.0, 0.0), (float("nan"), 0.0), (1.0, 1.0), (1.0, -1e-9), ("1", 0.0)):
        with pytest.raises(ac.ParameterError, match="accepted"):
            Target(epsilon, delta)
    with pytest.raises(UnsuitableMessage, match="cannot be priced"):
        Target(1.0, 0.0).check(1 * ac.Gaussian(1.0, adjacency=ac.Adjacency.REPLACE))


def test_label_sets_hold_as_many_as_agreed():
    assert label_sets([[0, 1, 1]], 1).tolist() == [[1, 2]]
    with pytest.raises(ac.ParameterError, match="2 labels a record; accepted: n_labels = 1"):
        client([[0, 1, 1]], "central")
