"""A shuffler trusts neither servers nor clients: its own price, its own list of clients, one setup for all."""

import copy
import math
from fractions import Fraction

import numpy as np
import pytest

import accountant as ac
from accountant.patience import watch_work
from mechanisms.exclusive import UsageError
from mechanisms.federation.client import Client
from mechanisms.federation.ledger import Ledger, MemoryLedger
from mechanisms.federation.messages import (
    DuplicateMessage,
    LateMessage,
    Message,
    Reports,
    UnsuitableMessage,
    digest_of,
)
from mechanisms.federation.protocols import central_event, covers_counts, protocol_of
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.federation.server import Server, Shuffler
from mechanisms.federation.targets import DEFAULT_ROUTE, RECEIVED, Target
from mechanisms.federation.trust_models import ReleaseRequest, TrustModel, calibrate_release

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2)).astype(np.float32)
Y = RNG.integers(0, 3, 1000)
QUERIES = RNG.normal(size=(4, 2)).astype(np.float32)
SESSION = bytes(16)


def opening(protocol, parameters, number=1, session=SESSION):
    return RoundSetup(QUERIES, 3, protocol=protocol, parameters=parameters).pack(number, session)


def gullible(number, rows):
    """A client that answers every setup; a shuffler must not rely on clients to refuse."""
    return Client(X[rows], Y[rows], number, "shuffle", 1e6, number, delta=0.5, crowd=10**9)


def shuffler(least=1000, **changed):
    return Shuffler(least, **{"max_epsilon": 1.0, "delta": 1e-6, "ledger": MemoryLedger(), **changed})


UNFAIR = {
    "shares without noise": ("shares", (0.05, 1000.0, 1e-6, 0.01)),
    "shares of more than there are": ("shares", (3.0, 1001.0, 20.0, 0.95)),
    "randomized response at 100": ("randomized-response", (100.0,)),
    "collision at 100": ("collision", (100.0, 9.0)),
    "counts": ("counts", ()),
}


@pytest.mark.parametrize("name", UNFAIR)
def test_a_round_that_protects_nothing_is_not_opened(name):
    """Attack: the server chooses the noise."""
    middle = shuffler()
    with pytest.raises(UnsuitableMessage, match=r"accepted|cannot be priced"):
        middle.open(opening(*UNFAIR[name]))
    assert middle.spent_ == ac.Composition()
    with pytest.raises(ac.ParameterError, match="no round is open"):
        middle.close()


@pytest.mark.audit
@pytest.mark.parametrize("party", ["shuffler", "client"])
def test_a_setup_that_is_dear_to_price_is_refused_within_the_receivers_patience(party):
    """Attack: the server chooses what a crowd of 10^8 takes seconds to price; the receiver decides how many."""
    ask, seen = opening("collision", (1.0, 9.0)), []
    for patience in (0.01, 1e-3):
        if party == "shuffler":
            receiver = shuffler(10**8, max_epsilon=1e-4, patience=patience)
        else:
            receiver = Client(X[:1], Y[:1], 1, "shuffle", 1e-4, 1, delta=1e-6, crowd=10**8, patience=patience)
        with (
            watch_work(lambda done, until: seen.append(until)),
            pytest.raises(UnsuitableMessage, match=f"cannot be priced: .* patience = {patience:g}; accepted: patience"),
        ):
            (receiver.open if party == "shuffler" else receiver.answer)(ask)
        assert receiver.spent_ == ac.Composition()
        assert max(seen, default=0.0) <= patience
        seen.clear()
    with pytest.raises(ac.ParameterError, match=r"patience = 0.* accepted: \(0, inf\]"):
        shuffler(patience=0.0)
    with pytest.raises(ac.ParameterError, match=r"patience = -1.* accepted: \(0, inf\]"):
        Client(X[:1], Y[:1], 1, "shuffle", 1e-4, 1, delta=1e-6, crowd=10, patience=-1.0)
    assert Target(1.0, 1e-6).patience == RECEIVED < DEFAULT_ROUTE["patience"]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("protocol", "parameters"),
    [("collision", (500.0, 9.0)), ("randomized-response", (400.0,)), ("separation", (100.0,))],
)
def test_what_clients_were_asked_is_what_the_shuffler_opened(protocol, parameters):
    """Attack: a fair setup for the shuffler, and for the clients one of the same round without noise."""
    bare, fair = opening(protocol, parameters), opening("collision", (1.0, 9.0))
    middle = shuffler(1, max_epsilon=9.0)
    middle.open(fair)
    for number in range(1, 4):
        answer = gullible(number, [number]).answer(bare)
        with pytest.raises(UnsuitableMessage, match="an answer to another setup of round 1"):
            middle.receive(answer)
    with pytest.raises(ac.ParameterError, match="reports of 0 users"):
        middle.close()
    middle.receive(gullible(9, [9]).answer(fair))
    assert Reports.unpack(Message.unpack(middle.close()).payload).records == 1


def test_what_a_shuffler_opened_is_what_the_server_asked():
    server = Server("shuffle", ac.Collision(1.0, 1, 9))
    setup = RoundSetup(QUERIES, 3, protocol="collision", parameters=(1.0, 9.0))
    ask = server.open(setup)
    other = RoundSetup(QUERIES + 1, 3, protocol="collision", parameters=(1.0, 9.0)).pack(1, server.session)
    middle = shuffler(1, max_epsilon=9.0)
    middle.open(other)
    middle.receive(gullible(1, [1]).answer(other))
    passed = middle.close()
    assert Message.unpack(passed).digest == digest_of(other) != digest_of(ask)
    with pytest.raises(UnsuitableMessage, match="an answer to another setup"):
        server.receive(passed)


@pytest.mark.parametrize("protocol", ["collision", "shares"])
def test_records_that_a_client_declares_are_no_crowd(protocol):
    """Attack: one client that states 1000 records counts as one user."""
    parameters = (1.0, 9.0) if protocol == "collision" else (20.0, 1000.0, 20.0, 0.95)
    ask = opening(protocol, parameters)
    answer = gullible(1, slice(None)).answer(ask)
    alone = shuffler(max_epsilon=5.0)
    alone.open(ask)
    alone.receive(answer)
    with pytest.raises(ac.ParameterError, match="reports of 1 users; accepted: at least 1000"):
        alone.close()
    registered = shuffler(max_epsilon=5.0, enrolled={1: 999, 2: 1})
    registered.open(ask)
    before = copy.deepcopy(vars(registered)["_heard"])
    with pytest.raises(UnsuitableMessage, match="1000 records of client 1; accepted: at most 999"):
        registered.receive(answer)
    with pytest.raises(UnsuitableMessage, match="from client 3; accepted: those that are enrolled"):
        registered.receive(gullible(3, [3]).answer(ask))
    assert registered._heard == before
    registered.receive(gullible(1, slice(0, 999)).answer(ask))
    registered.receive(gullible(2, [999]).answer(ask))
    assert Reports.unpack(Message.unpack(registered.close()).payload).records == 1000


def test_a_crowd_too_small_and_a_client_twice():
    ask = opening("collision", (1.0, 9.0))
    middle = shuffler(3, max_epsilon=9.0)
    middle.open(ask)
    for number in (1, 2):
        answer = gullible(number, [number]).answer(ask)
        middle.receive(answer)
        with pytest.raises(DuplicateMessage):
            middle.receive(answer)
    with pytest.raises(ac.ParameterError, match="reports of 2 users; accepted: at least 3"):
        middle.close()
    middle.receive(gullible(3, [3, 4]).answer(ask))
    middle.close()
    with pytest.raises(LateMessage):
        middle.receive(gullible(5, [5]).answer(ask))


def test_a_round_is_opened_once():
    """If a round were opened again with all messages but one, the difference would show who sent what."""
    middle = shuffler()
    middle.open(opening("collision", (1.0, 9.0), 2))
    with pytest.raises(DuplicateMessage):
        middle.open(opening("collision", (1.0, 9.0), 2))
    with pytest.raises(LateMessage):
        middle.open(opening("collision", (1.0, 9.0), 1))
    assert middle.spent_ == 1 * ac.Shuffled(ac.Collision(1.0, 1, 9), 1000)


@pytest.mark.audit
def test_the_total_of_all_rounds_stays_within_the_target(tmp_path):
    trust, target = TrustModel("shuffle"), Target(1.0, 1e-6)
    release = calibrate_release(ReleaseRequest(trust, target, RoundSize(4, 3), rounds=2, records=1000))
    for number in (1, 2):  # a restart in between
        shuffler(ledger=tmp_path / "ledger").open(release.setup(QUERIES).pack(number, SESSION))
    last = shuffler(ledger=Ledger(tmp_path / "ledger"))
    assert last.spent_ == 2 * release.event
    for session in (SESSION, b"another session!"):
        with pytest.raises(UnsuitableMessage, match=r"brings a record's epsilon to .* at delta = 1e-06"):
            last.open(release.setup(QUERIES).pack(3, session))


def test_options_that_cannot_be_are_named():
    for changed, match in (
        ({"least": 0}, "least = 0"),
        ({"delta": 0.0}, "delta = 0 for a shuffler"),
        ({"max_epsilon": 0.0}, "max_epsilon = 0"),
        ({"enrolled": {0: 1}}, "enrolled client = 0"),
        ({"enrolled": {1: 0}}, "users of client 1 = 0"),
        ({"ledger": 3}, "ledger = 3"),
        ({"ledger": None}, "ledger = None"),
    ):
        with pytest.raises(ac.ParameterError, match=match):
            shuffler(**changed)
    with pytest.raises(UsageError):
        copy.deepcopy(shuffler())


# --- the server ----------------------------------------------------------------------------------------

REPLACE, ADD_REMOVE = ac.Adjacency.REPLACE, ac.Adjacency.ADD_REMOVE


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize(("adjacency", "moved"), [(REPLACE, 8), (ADD_REMOVE, 4)])
def test_a_server_opens_no_round_that_moves_more_than_it_charges(noise, adjacency, moved):
    """With two queries and two labels of a record, 8 counts change if it is replaced, 4 if it is added."""
    setup = RoundSetup(QUERIES, 3, 2, 2)
    with pytest.raises(ac.ParameterError, match="a setup for 4 counts of each record; accepted: what event = "):
        Server("central", central_event(noise, 3.0, moved - 1, adjacency), 0).open(setup)
    for enough in (moved, moved + 1):
        assert Server("central", central_event(noise, 3.0, enough, adjacency), 0).open(setup)


def test_a_gaussian_round_is_priced_for_all_that_moves():
    """sqrt(moved) was below the root for moved = 3, 6, 10."""
    for nonzeros in range(1, 60):
        for adjacency, moved in ((ADD_REMOVE, nonzeros), (REPLACE, 2 * nonzeros)):
            event = central_event("gaussian", 3.0, moved, adjacency)
            assert Fraction(event.sensitivity) ** 2 >= moved
            assert covers_counts(event, nonzeros)
            less = ac.Gaussian(3.0, math.nextafter(event.sensitivity, 0.0), adjacency=adjacency)
            assert not covers_counts(less, nonzeros)


@pytest.mark.parametrize(
    "event", [ac.PureDP(1.0), ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1), 2 * ac.Gaussian(1.0), "laplace", None]
)
def test_noise_that_is_not_for_counts_is_refused(event):
    with pytest.raises(ac.ParameterError, match="in the central model; accepted: Laplace, Gaussian"):
        Server("central", event, 0)


def test_reports_are_charged_at_no_less_than_they_cost():
    setup = RoundSetup(QUERIES, 3, protocol="collision", parameters=(1.0, 9.0))
    shares = RoundSetup(QUERIES, 3, protocol="shares", parameters=(20.0, 1000.0, 20.0, 0.95))
    own, shuffled = ac.Collision(1.0, 1, 9), ac.Shuffled(ac.Collision(1.0, 1, 9), 50)
    for model, event, asked in (
        ("local", own, setup),
        ("local", ac.PureDP(1.0, REPLACE), setup),
        ("shuffle", own, setup),
        ("shuffle", shuffled, setup),
        ("shuffle", protocol_of(shares).event, shares),
    ):
        assert Server(model, event).open(asked)
    for model, event, asked in (
        ("local", ac.Collision(0.9, 1, 9), setup),
        ("local", ac.PureDP(0.99, REPLACE), setup),
        ("local", ac.PureDP(9.0, ADD_REMOVE), setup),
        ("shuffle", ac.PureDP(9.0, ADD_REMOVE), setup),
        ("local", shuffled, setup),
        ("local", ac.Laplace(9.0), setup),
        ("shuffle", ac.Shuffled(0.9, 50), setup),
        ("shuffle", ac.Shuffled(ac.Collision(0.9, 1, 9), 50), setup),
        ("shuffle", ac.PureDP(1.0, REPLACE), shares),
        ("shuffle", shuffled, shares),
    ):
        with pytest.raises(ac.ParameterError, match="a setup for reports that cost"):
            Server(model, event).open(asked)


def test_a_server_takes_no_smaller_crowd_than_it_charges():
    server = Server("shuffle", ac.Shuffled(ac.Collision(1.0, 1, 9), 3))
    ask = server.open(RoundSetup(QUERIES, 3, protocol="collision", parameters=(1.0, 9.0)))
    few = shuffler(2, max_epsilon=9.0)
    few.open(ask)
    for number in (1, 2):
        few.receive(gullible(number, [number]).answer(ask))
    with pytest.raises(UnsuitableMessage, match="reports of 2 records; accepted: at least 3"):
        server.receive(few.close())


def test_what_a_server_charges_cannot_be_changed():
    server = Server("central", central_event("laplace", 3.0, 2), 0)
    for name in ("event", "model"):
        with pytest.raises(AttributeError):
            setattr(server, name, None)


def test_under_add_remove_nothing_tells_how_many_there_are():
    found = []
    for rows in (slice(0, 10), slice(0, 11)):
        server = Server("central", central_event("laplace", 3.0, 1, ADD_REMOVE), 0)
        ask = server.open(RoundSetup(QUERIES, 3))
        for number in range(1, len(X[rows]) + 1):
            server.receive(Client(X[number - 1 : number], Y[number - 1 : number], number).answer(ask))
        counts = server.close()
        found.append((counts.records, counts.clients, counts.variance.tolist()))
    assert found[0] == found[1] == (None, None, [[18.0] * 3] * 4)
