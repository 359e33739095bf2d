"""Server, clients and shuffler: every message is counted once, and a refused message changes nothing."""

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from mechanisms.federation.client import label_sets
from mechanisms.federation.ledger import MemoryLedger
from mechanisms.federation.messages import (
    ClientCounts,
    CorruptMessage,
    DuplicateMessage,
    Kind,
    LateMessage,
    Message,
    MessageError,
    OversizedMessage,
    Reports,
    SummedCounts,
    UnknownVersion,
    UnsuitableMessage,
    WrongRound,
    digest_of,
)
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.server import Client, Server, Shuffler, add_up

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 60)
QUERIES = RNG.normal(size=(5, 4)).astype(np.float32)
NOISE = ac.Laplace(2.0, 1.0, 2, adjacency=ac.Adjacency.REPLACE)
PURE = ac.PureDP(2.0, ac.Adjacency.REPLACE)
SETUPS = {
    "counts": RoundSetup(QUERIES, 3),
    "randomized-response": RoundSetup(QUERIES, 3, protocol="randomized-response", parameters=(2.0,)),
    "collision": RoundSetup(QUERIES, 3, protocol="collision", parameters=(2.0, 9.0)),
    "separation": RoundSetup(QUERIES, 3, protocol="separation", parameters=(2.0,)),
}


TARGETS = {
    "central": {},
    "local": {"max_epsilon": 1e3},
    "shuffle": {"max_epsilon": 1e3, "delta": 1e-6, "crowd": 60},
}


def parties(model="central", protocol="counts", sizes=(10, 20, 30)):
    """A server with an open round, and clients with so many records each."""
    server = Server(model, NOISE if model == "central" else PURE, rng=0)
    opening = server.open(SETUPS[protocol])
    ends = np.cumsum((0, *sizes))
    clients = [
        Client(X[a:b], Y[a:b], number, model, rng=number, **TARGETS[model])
        for number, (a, b) in enumerate(pairwise(ends), 1)
    ]
    return server, opening, clients


def state(receiver):
    """All that a refused message could have changed."""
    hidden = ("_source", "_protocol", "_setup", "_owner")
    return copy.deepcopy({name: value for name, value in vars(receiver).items() if name not in hidden})


def assert_unchanged(before, receiver):
    after = state(receiver)
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)


def true_counts():
    nearest = ((X[:, None] - QUERIES) ** 2).sum(axis=2).argmin(axis=1)
    table = np.zeros((5, 3))
    np.add.at(table, (nearest, Y), 1)
    return table


# --- central -------------------------------------------------------------------------------------------


def test_counts_of_all_clients_plus_the_noise_that_is_priced():
    server, opening, clients = parties()
    for client in clients:
        server.receive(client.answer(opening))
    found = server.close()
    noise = found.counts - true_counts()
    expected = Server("central", NOISE, rng=0)._source.laplace(2.0, 15, 1.0).reshape(5, 3)
    np.testing.assert_allclose(noise, expected, atol=1e-12)
    assert (found.variance == 8.0).all()
    assert (found.records, found.clients) == (60, 3)
    assert server.spent_ == 1 * NOISE


def test_secure_aggregation_gives_the_same():
    released = []
    for summed in (False, True):
        server, opening, clients = parties()
        answers = [client.answer(opening) for client in clients]
        for message in [add_up(answers)] if summed else answers:
            server.receive(message)
        released.append(server.close())
    np.testing.assert_array_equal(released[0].counts, released[1].counts)
    assert released[0].clients == released[1].clients == 3


def test_a_client_alone_and_among_those_added_up_is_counted_once():
    server, opening, clients = parties()
    answers = [client.answer(opening) for client in clients]
    server.receive(answers[1])
    before = state(server)
    with pytest.raises(DuplicateMessage, match="client 2"):
        server.receive(add_up(answers))
    assert_unchanged(before, server)
    server.receive(add_up([answers[0], answers[2]]))
    np.testing.assert_allclose(server._sum, true_counts())


def test_adding_up_refuses_what_does_not_belong_together():
    server, opening, clients = parties()
    answers = [client.answer(opening) for client in clients]
    other = parties()[1]
    with pytest.raises(DuplicateMessage):
        add_up([answers[0], answers[0]])
    with pytest.raises(WrongRound):
        add_up([answers[0], Client(X, Y, 9).answer(other)])
    with pytest.raises(UnsuitableMessage, match="no counts"):
        add_up([])
    with pytest.raises(UnsuitableMessage, match="SUMMED_COUNTS; accepted: COUNTS"):
        add_up([add_up(answers)])
    narrow = Message(
        Kind.COUNTS, 1, server.session, 8, ClientCounts(np.array([[1]]), 1).pack(), digest_of(opening)
    ).pack()
    with pytest.raises(UnsuitableMessage, match="shape"):
        add_up([answers[0], narrow])
    elsewhere = Message.unpack(answers[1])
    with pytest.raises(UnsuitableMessage, match="an answer to another setup of round 1"):
        add_up([answers[0], replace(elsewhere, digest=digest_of(b"another")).pack()])


def test_noise_is_charged_before_it_is_drawn():
    server, opening, clients = parties()
    server.receive(clients[0].answer(opening))

    class Breaks:
        def laplace(self, *_):
            raise RuntimeError("power cut")

    server._source = Breaks()
    with pytest.raises(RuntimeError):
        server.close()
    assert server.spent_ == 1 * NOISE
    with pytest.raises(ac.ParameterError, match="no round is open"):
        server.close()  # not a second draw for one charge


# --- what is refused -----------------------------------------------------------------------------------


def forged(server, counts, records, client=9, kind=Kind.COUNTS, round=1):
    payload = ClientCounts(np.array(counts), records).pack()
    return Message(kind, round, server.session, client, payload, server._digest).pack()


def summed(server, counts, records, names):
    payload = SummedCounts(np.array(counts), records, np.array(names, np.uint64)).pack()
    return Message(Kind.SUMMED_COUNTS, 1, server.session, 0, payload, server._digest).pack()


ONE = [[1, 0, 0]] + 4 * [[0, 0, 0]]


@pytest.mark.parametrize(
    ("forge", "error"),
    [
        (lambda s: forged(s, ONE, 1, client=1), DuplicateMessage),
        (lambda s: forged(s, ONE, 1, client=0), UnsuitableMessage),
        (lambda s: forged(s, ONE, 2), UnsuitableMessage),
        (lambda s: forged(s, [[2, 0, 0]] + 4 * [[0, 0, 0]], 1), UnsuitableMessage),
        (lambda s: forged(s, [[1, 0]] + 4 * [[0, 0]], 1), UnsuitableMessage),
        (lambda s: forged(s, ONE, 1, round=2), WrongRound),
        (lambda s: forged(s, ONE, 1, kind=Kind.REPORTS), UnsuitableMessage),
        (lambda s: Message(Kind.SETUP, 1, s.session, 9, b"").pack(), UnsuitableMessage),
        (lambda s: Message(Kind.COUNTS, 1, s.session, 9, b"", bytes(range(32))).pack(), UnsuitableMessage),
        (lambda s: forged(s, ONE, 1)[:-1], CorruptMessage),
        (lambda s: forged(s, ONE, 1)[:4] + b"\1" + forged(s, ONE, 1)[5:], UnknownVersion),
        (lambda s: Message(Kind.COUNTS, 1, bytes(16), 9, b"", s._digest).pack(), WrongRound),
        (lambda s: Message(Kind.COUNTS, 1, s.session, 9, b"", s._digest).pack(), CorruptMessage),
        (lambda s: Message(Kind.COUNTS, 1, s.session, 9, bytes(2000), s._digest).pack(), OversizedMessage),
        (lambda s: summed(s, ONE, 1, []), UnsuitableMessage),
        (lambda s: summed(s, ONE, 1, [0]), UnsuitableMessage),
        (lambda s: summed(s, ONE, 1, [7, 7]), UnsuitableMessage),
        (lambda s: summed(s, ONE, 1, [7, 1]), DuplicateMessage),
        (lambda s: summed(s, 5 * [[2**61, 2**61, 2**61]], 15 * 2**61 - 2**64, [7]), UnsuitableMessage),
    ],
)
def test_a_server_refuses_by_name_and_changes_nothing(forge, error):
    server, opening, clients = parties()
    server.limit = 1000
    server.receive(clients[0].answer(opening))
    before = state(server)
    with pytest.raises(error, match=r"accepted|records|twice"):
        server.receive(forge(server))
    assert_unchanged(before, server)
    server.receive(clients[1].answer(opening))
    assert server._records == 30


def test_late_messages_are_refused():
    server, opening, clients = parties()
    answers = [client.answer(opening) for client in clients]
    server.receive(answers[0])
    server.close()
    with pytest.raises(LateMessage, match="no round is open"):
        server.receive(answers[1])
    server.open(SETUPS["counts"])
    before = state(server)
    with pytest.raises(LateMessage, match="round 1, which is over; accepted: round 2"):
        server.receive(answers[1])
    assert_unchanged(before, server)


@pytest.mark.audit
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_fuzzed_messages_are_refused_or_counted(data):
    """Bytes are changed at random and the checksum is recomputed: an accepted message holds a possible table."""
    server, opening, clients = parties()
    good = Message.unpack(clients[0].answer(opening))
    payload = bytearray(good.payload)
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    kind = data.draw(st.sampled_from(Kind))
    fuzzed = Message(
        kind,
        data.draw(st.integers(1, 2)),
        data.draw(st.sampled_from([server.session, bytes(16)])),
        data.draw(st.integers(0, 2)),
        bytes(payload)[: data.draw(st.sampled_from([len(payload), len(payload) - 1, 3]))],
        bytes(32) if kind == Kind.SETUP else data.draw(st.sampled_from([good.digest, bytes(range(32))])),
    ).pack()
    before = state(server)
    try:
        server.receive(fuzzed)
    except MessageError:
        assert_unchanged(before, server)
    else:
        assert server._sum.sum() == server._records
        assert len(server._heard) == 1


def test_rounds_are_opened_and_closed_in_turn():
    server, _, _ = parties()
    with pytest.raises(ac.ParameterError, match="round 1 is open"):
        server.open(SETUPS["counts"])
    with pytest.raises(ac.ParameterError, match="accepted: counts"):
        Server("central", NOISE, rng=0).open(SETUPS["collision"])
    with pytest.raises(ac.ParameterError, match="model = 'peer'"):
        Server("peer", NOISE)
    with pytest.raises(ac.ParameterError, match="no round is open"):
        Server("central", NOISE, rng=0).close()


# --- clients -------------------------------------------------------------------------------------------


def test_a_client_answers_each_round_once():
    server, opening, clients = parties("local", "collision")
    clients[0].answer(opening)
    spent = clients[0].spent_
    with pytest.raises(DuplicateMessage):
        clients[0].answer(opening)
    assert clients[0].spent_ == spent == 1 * ac.Collision(2.0, 1, 9)
    server.close()
    second = server.open(SETUPS["collision"])
    clients[0].answer(second)
    with pytest.raises(LateMessage):
        clients[0].answer(opening)
    assert clients[0].spent_ == 2 * ac.Collision(2.0, 1, 9)


@pytest.mark.parametrize(("model", "protocol"), [("local", "counts"), ("shuffle", "counts"), ("central", "collision")])
def test_a_client_does_not_answer_in_a_model_it_did_not_agree_to(model, protocol):
    client = Client(X, Y, 1, model, rng=0, **TARGETS[model])
    with pytest.raises(UnsuitableMessage, match=f"protocol {protocol} in the {model} model"):
        client.answer(SETUPS[protocol].pack(1, bytes(16)))
    assert client.spent_ == ac.Composition()


@pytest.mark.parametrize("parameters", [(), (2.0, 9.0), (0.0,), (-1.0,)])
def test_a_setup_whose_protocol_cannot_be_is_refused(parameters):
    setup = RoundSetup(QUERIES, 3, protocol="randomized-response", parameters=parameters)
    client = Client(X, Y, 1, "local", rng=0, **TARGETS["local"])
    with pytest.raises(CorruptMessage, match="accepted"):
        client.answer(setup.pack(1, bytes(16)))
    assert client.spent_ == ac.Composition()


# --- local and shuffle ---------------------------------------------------------------------------------


@pytest.mark.each_run(1)
@pytest.mark.parametrize("protocol", ["randomized-response", "collision", "separation"])
def test_reports_are_one_for_each_record_and_estimates_unbiased(protocol):
    """Over many rounds with fresh noise, estimates are right within their own standard errors."""
    totals, variances, runs = np.zeros((5, 3)), np.zeros((5, 3)), 300
    client = Client(X, Y, 1, "local", rng=3, max_epsilon=1e3)
    server = Server("local", PURE)
    for _ in range(runs):
        answer = client.answer(server.open(SETUPS[protocol]))
        assert Reports.unpack(Message.unpack(answer).payload).records == 60
        server.receive(answer)
        found = server.close()
        totals, variances = totals + found.counts, variances + found.variance
    score = (totals - runs * true_counts()) / np.sqrt(variances)
    assert np.abs(score).max() < 4.5
    assert 0.5 < (score**2).mean() < 1.8  # standard errors that are far too large would pass the line above


@pytest.mark.parametrize("protocol", ["randomized-response", "collision", "separation"])
def test_malformed_reports_change_nothing(protocol):
    server, opening, clients = parties("local", protocol)
    server.receive(clients[0].answer(opening))
    before = state(server)
    good = Message.unpack(clients[1].answer(opening))
    reports = Reports.unpack(good.payload)
    for body, size, records in (
        (b"\xff" * len(reports.body), reports.size, 20),
        (reports.body, reports.size, 19),
        (reports.body, 1, len(reports.body)),
        (reports.body[: -reports.size], reports.size, 20),
    ):
        payload = Reports(body, size, records).pack()
        message = Message(Kind.REPORTS, 1, server.session, 2, payload, good.digest).pack()
        with pytest.raises(UnsuitableMessage, match="accepted"):
            server.receive(message)
        assert_unchanged(before, server)
    server.receive(good.pack())
    assert server._records == 30


def test_a_shuffler_hides_who_sent_what():
    """What a shuffler passes on depends on the reports, not on who sent them or when."""
    passed = []
    for order in ((0, 1, 2), (2, 0, 1)):
        server, opening, clients = parties("shuffle", "collision")
        shuffler = Shuffler(60, 1e3, 1e-6, {1: 10, 2: 20, 3: 30}, ledger=MemoryLedger())
        shuffler.open(opening)
        answers = [client.answer(opening) for client in clients]
        for i in order:
            shuffler.receive(answers[i])
        message = shuffler.close()
        assert Message.unpack(message).client == 0
        passed.append(Message.unpack(message).payload)
        sent = b"".join(Reports.unpack(Message.unpack(answer).payload).body for answer in answers)
        size = Reports.unpack(passed[-1]).size
        rows = [Reports.unpack(passed[-1]).body[i : i + size] for i in range(0, len(sent), size)]
        assert rows == sorted(sent[i : i + size] for i in range(0, len(sent), size))
        server.receive(message)
        with pytest.raises(DuplicateMessage):
            server.receive(message)
        with pytest.raises(UnsuitableMessage, match="REPORTS; accepted: SHUFFLED"):
            server.receive(answers[0])
        assert server.close().records == 60
    assert passed[0] == passed[1]


def test_identified_records_report_the_same_whoever_holds_them():
    whole = Client(X, Y, 1, "local", rng=5, ids=np.arange(60), max_epsilon=9.0)
    parts = [Client(X[i::2], Y[i::2], 1 + i, "local", rng=5, ids=np.arange(60)[i::2], max_epsilon=9.0) for i in (0, 1)]
    opening = SETUPS["collision"].pack(1, bytes(16))

    def reports(client):
        found = Reports.unpack(Message.unpack(client.answer(opening)).payload)
        return [found.body[i : i + found.size] for i in range(0, len(found.body), found.size)]

    halves = [reports(part) for part in parts]
    together = reports(whole)
    assert together[::2] == halves[0]
    assert together[1::2] == halves[1]
    assert len(set(together)) == 60
    again = Client(X, Y, 1, "local", rng=5, ids=np.arange(60), max_epsilon=9.0)
    second = SETUPS["collision"].pack(2, bytes(16))
    assert Reports.unpack(Message.unpack(again.answer(second)).payload).body != b"".join(together)
    with pytest.raises(ac.ParameterError, match="ids were given without a seed"):
        Client(X, Y, 1, "local", ids=np.arange(60), max_epsilon=9.0)


def test_label_sets():
    assert label_sets([2, 0], 2).tolist() == [[2], [0]]
    assert label_sets([[0, 1, 1], [1, 0, 1]], 2).tolist() == [[1, 2], [0, 2]]
    for bad in ([], [-1, 0], [0.5, 1.0], [[1, 0], [1, 1]], [[0, 0], [0, 0]], [[2, 0], [0, 2]], ["a", "b"], [0]):
        with pytest.raises(ac.ParameterError, match="accepted"):
            label_sets(bad, 2)
