"""The Flower app: the same labels as in one process, also with real processes; refusals change nothing."""

import importlib
import json
import logging
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import accountant as ac
from mechanisms.federation.ledger import Ledger
from mechanisms.federation.messages import (
    DuplicateMessage,
    Kind,
    LateMessage,
    Message,
    MessageError,
    SummedCounts,
    UnsuitableMessage,
)
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.flower import APP
from mechanisms.flower.options import NodeOptions, RunOptions
from mechanisms.noise.source import as_randomness
from mechanisms.reverse_knn import ReverseKNN
from tests.mechanisms.flower.flower_children import deployment

flwr = pytest.importorskip("flwr.app", reason="the extra federated is not installed")
client = importlib.import_module("mechanisms.flower.client")
parcels = importlib.import_module("mechanisms.flower.parcels")
server = importlib.import_module("mechanisms.flower.server")

POINTS, TRUTH = make_blobs(260, n_features=5, centers=4, cluster_std=1.0, random_state=0)
X, Y, PUBLIC = POINTS[:200].astype(np.float32), TRUTH[:200], POINTS[200:].astype(np.float32)
NODES = {3: slice(0, 70), 2**64 - 1: slice(70, 80), 11: slice(80, 200)}
SEED = 7
OPTIONS = {"classes": 4, "queries": 8, "epsilon": 1.0, "seed": SEED, "min-clients": 3, "wait": 0.3, "timeout": 5.0}
LOCAL = {**OPTIONS, "model": "local", "epsilon": 4.0}
SETTINGS = {
    "central": {},
    "central, discrete": {"noise": "discrete-gaussian", "delta": 1e-5, "neighbors": 2},
    "central, two rounds": {"rounds": 2, "epsilon": 6.0, "balance": 0.5, "soft-labels": False},
    "local": {"model": "local", "epsilon": 4.0},
    "local, two rounds": {"model": "local", "epsilon": 8.0, "rounds": 2, "randomizer": "randomized-response"},
}
NAMES = {"queries": "n_queries", "neighbors": "n_neighbors", "classes": "n_classes", "seed": "rng"}


class Grid:
    """Flower's grid in this process: nodes answer every message; `change` may alter their answers."""

    def __init__(self, nodes, change=lambda node, reply: [reply]):
        self.nodes, self.change, self.replies = nodes, change, []

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout):
        assert timeout > 0
        for message in messages:
            node = message.metadata.dst_node_id
            context = SimpleNamespace(node_id=node, node_config=self.nodes[node])
            reply = client.respond(message, context)
            self.replies.append(reply)
            yield from self.change(node, reply)


def save(folder):
    """Records of all nodes as files, and the public points."""
    np.savez(folder / "public.npz", features=PUBLIC)
    for node, part in NODES.items():
        np.savez(folder / f"{node}.npz", features=X[part], labels=Y[part])


def nodes(folder, model="central", cap=8.0, seed=SEED):
    """Node configurations, seeded as the simulation's clients are."""
    if model == "central":
        return {node: {"records": str(folder / f"{node}.npz"), "model": model} for node in NODES}
    of_clients = int(as_randomness(seed).words(1)[0] >> np.uint64(1))
    return {
        node: {
            "records": str(folder / f"{node}.npz"),
            "model": model,
            "max-epsilon": cap,
            "seed": of_clients,
            "first-record": part.start,
        }
        for node, part in NODES.items()
    }


def run(folder, grid, options):
    """Runs the app as Flower would start it; returns the results, or None."""
    config = {"public": str(folder / "public.npz"), "out": str(folder / "out.npz"), **options}
    server.main(grid, SimpleNamespace(run_config=config))
    with np.load(folder / "out.npz") as out:
        return dict(out), json.loads((folder / "out.json").read_text())


def simulated(options, X=X, Y=Y, public=PUBLIC, clients=None):
    unsuitable = ("min-clients", "wait", "timeout")
    named = {name: value for name, value in options.items() if name not in unsuitable}
    knn = ReverseKNN(**{NAMES.get(name, name.replace("-", "_")): value for name, value in named.items()})
    return knn.label(X, Y, public, clients)


def spent(folder, node):
    with sqlite3.connect(folder / f"{node}.npz.ledger") as database:
        found = database.execute("SELECT round, epsilon FROM answers ORDER BY rowid").fetchall()
    database.close()
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    # identifiers of the run, which Flower sets before messages are made
    identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(identity, name, 1)
    save(tmp_path)
    return tmp_path


# --- the same result -----------------------------------------------------------------------------------


@pytest.mark.audit
def test_processes_find_the_labels_of_the_simulation(tmp_path):
    digits = importlib.import_module("mechanisms.datasets").digits()
    records, labels, public = digits.features[:500], digits.labels[:500], digits.features[500:700]
    np.savez(tmp_path / "public.npz", features=public)
    configs = []
    for name, part in {"a": slice(0, 300), "b": slice(300, 500)}.items():
        np.savez(tmp_path / f"{name}.npz", features=records[part], labels=labels[part])
        configs.append({"records": tmp_path / f"{name}.npz", "model": "central"})
    options = {"classes": 10, "queries": 20, "epsilon": 1.0, "seed": SEED}
    out = tmp_path / "out.npz"
    with deployment(tmp_path / "flower", configs) as running:
        log = running.run({**options, "public": tmp_path / "public.npz", "out": out, "timeout": 60.0})
        assert out.with_suffix(".json").exists(), log + running.logs()
    assert running.left() == []
    expected = simulated(options, records, labels, public)
    with np.load(out) as found:
        np.testing.assert_array_equal(found["label"], expected.labels)
        np.testing.assert_array_equal(found["soft"], expected.soft)
    summary = json.loads(out.with_suffix(".json").read_text())
    assert (summary["epsilon"], summary["delta"], summary["adjacency"]) == (1.0, 0.0, "replace")
    assert (summary["clients"], summary["records"], summary["seeded"]) == ([2], [500], True)
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_app_finds_the_labels_of_the_simulation(name, folder):
    options = {**OPTIONS, **SETTINGS[name]}
    model, rounds = options.get("model", "central"), options.get("rounds", 1)
    found, summary = run(folder, Grid(nodes(folder, model)), options)
    expected = simulated(options, clients=np.repeat([1, 2, 3], [part.stop - part.start for part in NODES.values()]))
    np.testing.assert_array_equal(found["label"], expected.labels)
    np.testing.assert_array_equal(found["soft"], expected.soft)
    price = expected.guarantee(options.get("delta", 0.0))
    assert (summary["epsilon"], summary["delta"]) == (price.epsilon, price.delta)
    assert price.epsilon <= options["epsilon"]
    assert summary["spent"] == [{"event": repr(event), "count": count} for event, count in expected.composition]
    assert (summary["clients"], summary["records"]) == ([3] * rounds, [200] * rounds)
    assert summary["bytes_per_client"] == expected.bytes_per_client
    each = options["epsilon"] / rounds if model == "local" else 0.0
    assert all(spent(folder, node) == [(number, each) for number in range(1, rounds + 1)] for node in NODES)


@pytest.mark.parametrize("seed", [SEED, -1])
def test_a_seeded_run_says_once_that_its_noise_can_be_repeated(folder, caplog, seed):
    with caplog.at_level(logging.WARNING, "flwr"):
        _, summary = run(folder, Grid(nodes(folder)), {**OPTIONS, "seed": seed})
    assert summary["seeded"] == (seed >= 0)
    assert "seed" not in summary["options"]
    assert caplog.text.count("reproducible noise: not private against whoever knows the seed") == (seed >= 0)


def test_a_second_run_to_the_same_file_is_not_silent(folder, caplog):
    with caplog.at_level(logging.WARNING, "flwr"):
        run(folder, Grid(nodes(folder)), OPTIONS)
        assert "another run" not in caplog.text
        run(folder, Grid(nodes(folder)), OPTIONS)
    assert "holds the release of another run; this run is paid for in addition, and replaces the file" in caplog.text


def rounds_spent(folder):
    with closing(ac.Odometer(path=folder / "out.npz.spent")) as spent:
        return sum(count for _, count in spent.run)


class Killed(BaseException):
    pass


def test_rounds_of_a_killed_run_stay_charged(folder, caplog):
    """The price of a round is on disk before its counts are known."""
    options, asked = {**OPTIONS, "rounds": 2, "epsilon": 6.0}, []

    class Dies(Grid):
        def send_and_receive(self, messages, *, timeout):
            asked.append(rounds_spent(folder))
            if len(asked) == 2:
                raise Killed
            yield from super().send_and_receive(messages, timeout=timeout)

    with pytest.raises(Killed):
        run(folder, Dies(nodes(folder)), options)
    assert (asked, rounds_spent(folder)) == ([0, 1], 1)
    assert not (folder / "out.npz").exists()
    with caplog.at_level(logging.WARNING, "flwr"):
        _, summary = run(folder, Grid(nodes(folder)), options)
    assert "out.npz.spent: rounds released before, which stay charged: 1" in caplog.text
    assert (summary["clients"], rounds_spent(folder)) == ([3, 3], 3)


def test_where_clients_pay_the_server_keeps_nothing(folder):
    run(folder, Grid(nodes(folder, "local")), LOCAL)
    assert not (folder / "out.npz.spent").exists()


def test_rounds_under_another_adjacency_are_refused_before_anybody_is_asked(folder):
    ac.Odometer(path=folder / "out.npz.spent").spend(ac.Gaussian(9.0))
    grid = Grid(nodes(folder))
    with pytest.raises(ac.ParameterError, match=r"holds rounds under add-remove adjacency.*accepted: another path"):
        run(folder, grid, OPTIONS)
    assert not grid.replies


# --- what clients refuse -------------------------------------------------------------------------------


def test_a_client_keeps_its_cap_over_all_runs(folder):
    grid = Grid(nodes(folder, "local", cap=9.0))
    for _ in range(2):
        run(folder, grid, LOCAL)
    (folder / "out.npz").unlink()
    with pytest.raises(server.FederationError, match="0 of 3 clients"):
        run(folder, grid, LOCAL)
    assert not (folder / "out.npz").exists()
    assert all(spent(folder, node) == [(1, 4.0)] * 2 for node in NODES)


def test_a_client_of_the_local_model_never_sends_counts(folder, caplog):
    grid = Grid(nodes(folder, "local"))
    with caplog.at_level(logging.ERROR, "flwr"), pytest.raises(server.FederationError):
        run(folder, grid, OPTIONS)
    assert "protocol counts in the local model" in caplog.text
    assert not any((folder / f"{node}.npz.ledger").exists() for node in NODES)


@pytest.mark.parametrize("broken", ["classes", "columns", "no file", "no ledger", "options"])
def test_a_refusal_tells_nothing(folder, broken):
    configs = nodes(folder)
    if broken == "classes":
        configs[3]["classes"] = 5
    elif broken == "columns":
        np.savez(folder / "3.npz", features=X[:9, :2], labels=Y[:9])
    elif broken == "no file":
        (folder / "3.npz").unlink()
    elif broken == "no ledger":
        configs[3]["ledger"] = str(folder)
    else:
        configs[3]["model"] = "whatever"
    grid = Grid(configs)
    _, summary = run(folder, grid, {**OPTIONS, "min-clients": 2})
    assert summary["clients"] == [2]
    (reply, *_) = grid.replies
    assert reply.content == parcels.make_refusal()
    assert not reply.has_error()


def test_labels_that_a_run_does_not_know_are_answered_alike(folder):
    """A server that asks for fewer and fewer classes learns nothing from refusals."""
    labels = np.where(Y[NODES[3]] == 3, 17, Y[NODES[3]])
    np.savez(folder / "3.npz", features=X[NODES[3]], labels=labels)
    grid = Grid(nodes(folder, "local", cap=50.0))
    for classes in (4, 3, 2):
        _, summary = run(folder, grid, {**LOCAL, "classes": classes})
        assert (summary["clients"], summary["records"]) == ([3], [200])
        (folder / "out.npz").unlink()
    assert all(spent(folder, node) == [(1, 4.0)] * 3 for node in NODES)


def test_what_nobody_foresaw_is_not_told_either(folder, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("record 17 has label 3")

    monkeypatch.setattr(client, "load", fails)
    grid = Grid(nodes(folder))
    with pytest.raises(server.FederationError):
        run(folder, grid, OPTIONS)
    assert all(reply.content == parcels.make_refusal() and not reply.has_error() for reply in grid.replies)


def test_a_setup_is_answered_once_and_never_after_a_later_one(folder):
    setups = []

    class Spy(Grid):
        def send_and_receive(self, messages, *, timeout):
            setups.append(parcels.unwrap(messages[0].content))
            return super().send_and_receive(messages, timeout=timeout)

    configs = nodes(folder, "local")
    run(folder, Spy(configs), {**LOCAL, "rounds": 2})
    before = spent(folder, 3)
    options = NodeOptions.of(configs[3])
    with pytest.raises(DuplicateMessage, match="round 2"):
        client.answer(setups[1], options, 3)
    with pytest.raises(LateMessage, match="round 1"):
        client.answer(setups[0], options, 3)
    with pytest.raises(MessageError):
        client.answer(setups[1][:-1], options, 3)
    assert spent(folder, 3) == before


def test_a_node_s_target_is_the_client_s(folder):
    config = {"records": str(folder / "3.npz"), "model": "local", "max-epsilon": 2.0, "delta": 1e-6}
    small = RoundSetup(PUBLIC[:4], 4, protocol="randomized-response", parameters=(0.1,))
    options = NodeOptions.of(config)
    for number in range(1, 22):  # a sum of epsilons would stop after 20
        client.answer(small.pack(number, bytes(16)), options, 3)
    large = RoundSetup(PUBLIC[:4], 4, protocol="randomized-response", parameters=(1.9,))
    with pytest.raises(UnsuitableMessage, match="at delta = 1e-06; accepted: at most max_epsilon = 2"):
        client.answer(large.pack(22, bytes(16)), options, 3)
    assert Ledger(folder / "3.npz.ledger").spent().releases == 21


def test_a_node_is_checked_before_it_is_started(folder, capsys):
    main = importlib.import_module("mechanisms.flower.__main__").main
    config = f'records="{folder / "3.npz"}" model="local" max-epsilon=4.0 classes=4'
    assert main(["check", config]) == 0
    assert capsys.readouterr().out == "70 records of 5 columns; spent so far: Composition()\n"
    np.savez(folder / "3.npz", features=X[:9] * np.nan, labels=Y[:9])
    for arguments, code in ((["check", config], 1), (["check", 'model="local"'], 1), (["check"], 2), (["run", "x"], 2)):
        assert main(arguments) == code
        assert "accepted" in capsys.readouterr().err
    assert main([]) == 0
    assert capsys.readouterr().out == f"{APP}\n"
    assert not (folder / "3.npz.ledger").exists()


# --- what the server refuses ---------------------------------------------------------------------------


def parcel_of(reply):
    return parcels.unwrap(reply.content)


def again(reply, content):
    """A reply from the same node with other contents."""
    return SimpleNamespace(metadata=reply.metadata, content=content, has_error=lambda: False)


def renamed(data, name):
    message = Message.unpack(data)
    return replace(message, client=name).pack()


def in_other_names(data):
    """A sum, as of secure aggregation, that states to hold the answers of both clients."""
    message = Message.unpack(data)
    table = np.zeros((8, 4), np.int64)
    table[0, 0] = 1
    summed = SummedCounts(table, 1, np.array([3, 11], np.uint64)).pack()
    return replace(message, kind=Kind.SUMMED_COUNTS, payload=summed).pack()


def of_round(data, number):
    message = Message.unpack(data)
    return replace(message, round=number).pack()


def records(**named):
    return flwr.RecordDict({name: flwr.ConfigRecord(record) for name, record in named.items()})


TAMPERED = {
    "cut short": lambda data: parcels.wrap(data[:-1]),
    "a bit changed": lambda data: parcels.wrap(data[:-1] + bytes([data[-1] ^ 1])),
    "empty": lambda data: parcels.wrap(b""),
    "another client's name": lambda data: parcels.wrap(renamed(data, 11)),
    "an answer to another setup": lambda data: parcels.wrap(
        replace(Message.unpack(data), digest=bytes(31) + b"1").pack()
    ),
    "other clients' names": lambda data: parcels.wrap(in_other_names(data)),
    "no client's name": lambda data: parcels.wrap(renamed(data, 0)),
    "a later round": lambda data: parcels.wrap(of_round(data, 2)),
    "nothing": lambda data: flwr.RecordDict({}),
    "text": lambda data: flwr.RecordDict({"reverse-knn": flwr.ConfigRecord({"message": "hello"})}),
    "another record": lambda data: records(other={"message": data}),
    "two fields": lambda data: flwr.RecordDict({"reverse-knn": flwr.ConfigRecord({"message": data, "more": 1})}),
    "two records": lambda data: flwr.RecordDict(
        {"reverse-knn": flwr.ConfigRecord({"message": data}), "more": flwr.ConfigRecord({})}
    ),
    "refused": lambda data: parcels.make_refusal(),
}


@pytest.mark.each_run(7)
@pytest.mark.parametrize("name", TAMPERED)
@pytest.mark.parametrize("options", [OPTIONS, LOCAL], ids=["central", "local"])
def test_an_answer_that_was_tampered_with_counts_for_nothing(name, options, folder, caplog):
    def change(node, reply):
        return [again(reply, TAMPERED[name](parcel_of(reply)))] if node == 3 else [reply]

    model = options.get("model", "central")
    with caplog.at_level(logging.WARNING, "flwr"):
        found, summary = run(folder, Grid(nodes(folder, model), change), {**options, "min-clients": 2})
    assert caplog.text.count("not taken from client 3") == 1
    assert (summary["clients"], summary["records"]) == ([2], [130])
    if model == "central":
        expected = simulated(options, X[70:], Y[70:])
        np.testing.assert_array_equal(found["soft"], expected.soft)


def test_an_answer_that_comes_twice_counts_once(folder, caplog):
    with caplog.at_level(logging.WARNING, "flwr"):
        found, summary = run(folder, Grid(nodes(folder), lambda node, reply: [reply, reply]), OPTIONS)
    assert caplog.text.count("was heard in round 1") == 3
    assert summary["clients"] == [3]
    np.testing.assert_array_equal(found["soft"], simulated(OPTIONS).soft)


def test_answers_of_an_earlier_round_or_run_are_late(folder, caplog):
    kept = []

    def late(node, reply):
        kept.append(reply)
        earlier = [each for each in kept if each.metadata.src_node_id == node][:-1]
        return [*earlier, reply]

    grid = Grid(nodes(folder), late)
    with caplog.at_level(logging.WARNING, "flwr"):
        for _ in range(2):
            _, summary = run(folder, grid, {**OPTIONS, "rounds": 2})
            assert summary["clients"] == [3, 3]
    assert caplog.text.count("a message for round 1, which is over") == 3 + 3
    assert caplog.text.count("a message for another session") == 6 + 6


def test_an_error_of_flower_is_no_answer(folder, caplog):
    def change(node, reply):
        failed = SimpleNamespace(metadata=reply.metadata, has_error=lambda: True, error=SimpleNamespace(code=2))
        return [failed] if node == 3 else [reply]

    with caplog.at_level(logging.WARNING, "flwr"), pytest.raises(server.FederationError, match="2 of 3 clients"):
        run(folder, Grid(nodes(folder), change), OPTIONS)
    assert "Flower's error 2" in caplog.text
    assert not any((folder / name).exists() for name in ("out.npz", "out.json"))
    assert rounds_spent(folder) == 0


def test_nothing_is_asked_while_too_few_are_there(folder):
    here = nodes(folder)
    grid = Grid({3: here[3]})
    with pytest.raises(server.FederationError, match="1 clients after"):
        run(folder, grid, OPTIONS)
    assert grid.replies == []


# --- options -------------------------------------------------------------------------------------------

BAD_RUNS = [
    ({"model": "shuffle", "delta": 1e-5}, "who sent what"),
    ({"model": "other"}, "model = 'other'"),
    ({"epsilon": 0.0}, "epsilon = 0.0"),
    ({"epsilon": float("nan")}, "epsilon = nan"),
    ({"delta": 1.0}, "delta = 1.0"),
    ({"noise": "gaussian"}, "delta = 0 with noise = 'gaussian'"),
    ({"classes": 1}, "classes = 1"),
    ({"classes": True}, "classes = True"),
    ({"queries": 61}, "queries = 61"),
    ({"queries": 2.5}, "queries = 2.5"),
    ({"neighbors": 9}, "n_neighbors = 9"),
    ({"rounds": 0}, "rounds = 0"),
    ({"balance": 1.5}, "balance = 1.5"),
    ({"min-clients": 0}, "min-clients = 0"),
    ({"timeout": 0.0}, "timeout = 0"),
    ({"wait": float("inf")}, "wait = inf"),
    ({"out": "out.npz"}, "out = 'out.npz'"),
    ({"public": ""}, "public = ''"),
    ({"spice": 1}, "option 'spice'"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_RUNS, ids=str)
def test_a_run_that_cannot_be_asks_nobody(folder, changes, message):
    grid = Grid(nodes(folder))
    with pytest.raises(ac.AccountantError, match=message) as caught:
        run(folder, grid, {**OPTIONS, **changes})
    assert "accepted:" in str(caught.value)
    assert grid.replies == []


BAD_NODES = [
    ({"model": "shuffle"}, "who sent what"),
    ({"model": ""}, "model = ''"),
    ({"model": "local"}, "max-epsilon = nan"),
    ({"model": "local", "max-epsilon": 0.0}, "max-epsilon = 0"),
    ({"model": "local", "max-epsilon": float("inf")}, "max-epsilon = inf"),
    ({"max-epsilon": 1.0}, "max-epsilon = 1, delta = 0 in the central model"),
    ({"delta": 0.5}, "max-epsilon = nan, delta = 0.5 in the central model"),
    ({"model": "local", "max-epsilon": 1.0, "delta": 1.0}, "delta = 1"),
    ({"classes": -1}, "classes = -1"),
    ({"records": ""}, "records = ''"),
    ({"records": "digits"}, "ledger = ''"),
    ({"first-record": -1}, "first-record = -1"),
    ({"seed": "7"}, "seed = '7'"),
    ({"spice": 1}, "option 'spice'"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_NODES, ids=str)
def test_a_node_says_what_is_wrong_with_its_options(folder, changes, message):
    with pytest.raises(ac.ParameterError, match=message):
        NodeOptions.of({"records": str(folder / "3.npz"), "model": "central", **changes})


def test_the_app_s_file_holds_the_options_and_their_defaults():
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert config == {each.name.replace("_", "-"): each.default for each in fields(RunOptions)}


@pytest.mark.audit
def test_the_bundle_that_clients_are_sent_holds_no_code():
    code = (
        "import io, pathlib, sys, zipfile; from flwr.cli.build import build_fab_from_disk as build;"
        "print(*zipfile.ZipFile(io.BytesIO(build(pathlib.Path(sys.argv[1])))).namelist())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(APP)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"pyproject.toml", ".info/CONTENT"}
