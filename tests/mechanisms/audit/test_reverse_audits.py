"""Reverse k-NN on neighbours that differ in one record: within its promise, and detected with less noise."""

from dataclasses import replace

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.federation.client import Client
from mechanisms.federation.messages import Message, Reports
from mechanisms.federation.protocols import central_event, protocol_of
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.federation.server import Server
from mechanisms.federation.targets import Target
from mechanisms.federation.trust_models import ReleaseRequest, TrustModel, calibrate_release

pytestmark = pytest.mark.audit

RUNS = 12_000
QUERIES = np.float32([[0.0], [1.0]])
# one record changes its query and its label: two counts move, one down, one up
NEIGHBOURS = [
    (np.float32([[0.0], [0.0], [1.0]]), np.array([0, 1, 0])),
    (np.float32([[0.0], [1.0], [1.0]]), np.array([0, 0, 0])),
]


def compared(name, promise, mechanism, score, delta=0.0, runs=RUNS):
    found = mx.audit(mechanism, neighbours=NEIGHBOURS, runs=runs, delta=delta, score=score, batched=True, rng=2)
    print(f"{name}: promised {promise:.3f}, at least {float(found):.3f}")
    return float(found)


def release(**changed):
    usual = {"model": "central", "noise": "laplace", "randomizer": "collision"}
    given = {**usual, "epsilon": 1.0, "delta": 0.0, "rounds": 1, **changed}
    trust, target = TrustModel(*(given[name] for name in usual)), Target(given["epsilon"], given["delta"])
    return calibrate_release(ReleaseRequest(trust, target, RoundSize(2, 2), given["rounds"], records=3))


@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (0.5, True)])
@pytest.mark.parametrize(
    ("noise", "delta"), [("laplace", 0.0), ("discrete-laplace", 0.0), ("gaussian", 0.05), ("discrete-gaussian", 0.05)]
)
def test_central(noise, delta, share, caught):
    """Released counts from records, through the messages of a client and a server."""
    planned = release(noise=noise, delta=delta)
    drawn = central_event(noise, share * planned.noise, 2)
    setup = planned.setup(QUERIES)

    def mechanism(data, rng, runs):
        counts = []
        server = Server("central", drawn, rng)
        client = Client(*data, 1)
        for _ in range(runs):
            server.receive(client.answer(server.open(setup)))
            counts.append(server.close().counts)
        return np.array(counts)

    def score(counts):
        """Log likelihood ratio of the two data sets from the counts that changed."""
        moved = counts[:, [0, 1], [1, 0]] - [1, 1]
        each = np.clip(moved, [-1, 0], [0, 1]) if "laplace" in noise else moved
        return each[:, 0] - each[:, 1]

    found = compared(f"{noise}, {share} of its noise", 1.0, mechanism, score, delta, runs=2000)
    assert found > 0.3
    assert (found > 1.0) is caught


def estimates(randomizer, rows):
    return np.array([randomizer.estimate(row[None]).counts for row in rows])


@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (2.0, True)])
@pytest.mark.parametrize("randomizer", ["randomized-response", "collision", "separation"])
def test_local_reports_themselves(randomizer, share, caught):
    """Log likelihood ratio of a client's message for two inputs."""
    planned = release(model="local", randomizer=randomizer, epsilon=1.0)
    drawn = release(model="local", randomizer=randomizer, epsilon=share)
    setup = drawn.setup(QUERIES)
    protocol = protocol_of(setup)

    def mechanism(data, rng, runs):
        # each record of the changing input is an independent message
        copies = np.repeat(data[0][1:2], runs, axis=0), np.repeat(data[1][1:2], runs)
        client = Client(*copies, 1, "local", rng=rng, max_epsilon=share)
        reports = Reports.unpack(Message.unpack(client.answer(setup.pack(1, bytes(16)))).payload)
        return [reports.body[i : i + reports.size] for i in range(0, len(reports.body), reports.size)]

    def score(reports):
        rows = np.frombuffer(b"".join(reports), np.uint8).reshape(-1, protocol.report_bytes)
        if randomizer == "separation":
            parts = protocol.randomizer.query_part, protocol.randomizer.label_part
            cut = parts[0].report_bytes
            query, label = (
                estimates(part, some) for part, some in zip(parts, (rows[:, :cut], rows[:, cut:]), strict=True)
            )
            return query[:, 0] - query[:, 1] + label[:, 1] - label[:, 0]
        # query 0 and label 1, or query 1 and label 0
        counts = estimates(protocol.randomizer, rows)
        return counts[:, 1] - counts[:, 2]

    found = compared(f"{randomizer} at {share}", planned.noise, mechanism, score)
    assert found > 0.3
    assert (found > 1.0) is caught


def test_more_rounds_than_planned_are_charged():
    planned = release(rounds=2)
    server = Server("central", planned.event, rng=0)
    for number in range(1, 4):
        server.open(RoundSetup(QUERIES, 2))
        server.close()
        assert server.spent_ == number * planned.event
    assert ac.epsilon(server.spent_, 0.0).epsilon == pytest.approx(1.5)
    longer = replace(planned, request=replace(planned.request, rounds=3))
    assert longer.guarantee(0.0).epsilon == pytest.approx(1.5)
