"""What leaves a mechanism is as the threat model says: paid for, public, or for the operator only.

The first half holds every public attribute against the tables of `notebooks/guarantees.md`. The second half runs every
mechanism, and the commands, on random neighbours with the same noise, and with all that is paid for cut off: what
everyone may see must then be the same, byte for byte.
"""

import contextlib
import dataclasses
import inspect
import io
import json
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

import accountant as ac
import mechanisms as mx
from mechanisms import individual_knn, labelling, noisy_sgd, private_knn
from mechanisms.cli import main
from mechanisms.federation.ledger import MemoryLedger
from mechanisms.federation.protocols import LocalProtocol, SharesProtocol
from mechanisms.federation.server import ReleasedCounts, Server, Shuffler
from mechanisms.noise import source as noise
from mechanisms.rounds import label_in_rounds
from mechanisms.students.network import NetworkStudent
from mechanisms.voting import noisy_argmax, noisy_label_set, passes_screening
from tests.cases import audit_after

pytestmark = pytest.mark.usefixtures("one_choice")

PAGE = Path(__file__).parents[2] / "notebooks" / "guarantees.md"
WHO = {"everyone", "operator", "server", "shuffler"}

RNG = np.random.default_rng(0)
N, WIDTH, CLASSES = 40, 4, 3
X = RNG.normal(size=(N, WIDTH)).astype(np.float32)
Y = RNG.integers(0, CLASSES, N)
PUBLIC = RNG.normal(size=(14, WIDTH)).astype(np.float32)

CONSTRUCTED = {"rng", "get_params", "set_params", "unused", "for_budget"}
VERBS = {
    "warn_if_thin",
    "fit",
    "label",
    "predict",
    "add",
    "remove",
    "answer",
    "open",
    "receive",
    "close",
    "setup",
    "course",
}
"""Methods whose results are checked separately."""


def tables():
    """Who may see what, for every heading of the threat model."""
    text = PAGE.read_text("utf-8").split("## Who sees what")[1].split("\n## ")[0]
    found = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        heading, *lines = part.splitlines()
        rows = [line.split("|")[1:4] for line in lines if line.startswith("| `")]
        found[heading] = {name: who.strip() for names, who, _ in rows for name in re.findall(r"`([^`]+)`", names)}
    return found


TABLES = tables()


def test_every_row_says_who():
    assert len(TABLES) == 6
    for rows in TABLES.values():
        assert rows
        assert set(rows.values()) <= WHO


# --- mechanisms as a caller uses them ------------------------------------------------------------------


def nearest():
    return KNeighborsClassifier(1)


def private_knn_of(**changes):
    parameters = {"n_neighbors": 5, "sampling_rate": 0.6, "screening_sigma": 3.0, "vote_sigma": 2.0, "max_labels": 6}
    return mx.PrivateKNN(**parameters | changes, n_classes=CLASSES, rng=PublicNoise.of(0))


LABELLERS = {
    "private-knn": private_knn_of,
    "private-knn, odometer": lambda: private_knn_of(max_labels=None),
    "private-knn, plan": lambda: private_knn_of(n_queries=14),
    "gnmax": lambda: mx.GNMax(
        7, 2.0, nearest, screening_sigma=3.0, max_labels=6, n_classes=CLASSES, rng=PublicNoise.of(0)
    ),
    "lnmax": lambda: mx.LNMax(7, 2.0, nearest, max_labels=6, n_classes=CLASSES, rng=PublicNoise.of(0)),
}


def individual():
    return mx.IndividualKNN.for_budget(1.0, 1e-5, 14, 0.2, 0.4, n_classes=CLASSES, rng=PublicNoise.of(0))


def reverse(**changes):
    return mx.ReverseKNN(4, n_classes=CLASSES, rng=PublicNoise.of(0), **changes)


REVERSE = {
    "central": {},
    "central, add-remove": {"adjacency": ac.Adjacency.ADD_REMOVE},
    "central, rounds": {"rounds": 2, "make_student": lambda: NetworkStudent(hidden=4, max_iter=10)},
    "local": {"model": "local"},
    "shuffle": {"model": "shuffle", "delta": 1e-3, "epsilon": 0.8},
    "shares": {"model": "shuffle", "randomizer": "shares", "delta": 1e-3},
}


def training():
    return mx.LinearNoisySGD(steps=4, n_classes=CLASSES, rng=PublicNoise.of(0))


MAKERS = {**LABELLERS, **REVERSE, "ind-knn": individual, "noisy-sgd": training}


def public_names(thing):
    """Public attributes other than constructor parameters and methods that act."""
    own = {name for name in dir(thing) if not name.startswith("_")} - VERBS - CONSTRUCTED
    if hasattr(thing, "get_params"):
        own -= set(thing.get_params())
    return own


def parties():
    server = Server("central", ac.Laplace(2.0, 1.0, 2, adjacency=ac.Adjacency.REPLACE), PublicNoise.of(0))
    return {
        "client": mx.Client(X, Y, 1, n_classes=CLASSES),
        "server": server,
        "shuffler": Shuffler(10, 1.0, 1e-6, ledger=MemoryLedger()),
    }


@cache
def walked():
    """Triples (heading of the threat model, description, object)."""
    return list(walk())


def walk():
    for name, make in LABELLERS.items():
        model = make().fit(X, Y)
        yield "Private-kNN, GNMAX, LNMAX", name, model
        yield "Private-kNN, GNMAX, LNMAX", f"labelling of {name}", model.label(PUBLIC)
    rounds = label_in_rounds(private_knn_of(screening_sigma=None), X, Y, PUBLIC, queries=6)
    yield "Private-kNN, GNMAX, LNMAX", "rounds", rounds
    yield "Linear NoisySGD", "noisy-sgd", mx.LinearNoisySGD(steps=3, n_classes=CLASSES, rng=0).fit(X, Y)
    model = individual().fit(X, Y)
    model.predict(PUBLIC)
    yield "Ind-KNN", "ind-knn", model
    for name, changes in REVERSE.items():
        model = reverse(**changes)
        out = model.label(X, Y, PUBLIC)
        yield "Reverse k-NN", f"reverse {name}", model
        yield "Reverse k-NN", f"labelling of reverse {name}", out
        yield "Reverse k-NN", f"round of reverse {name}", out.rounds[0]
    counts = ReleasedCounts(np.zeros((1, 1)), np.ones((1, 1)), 3, 2)
    yield "Reverse k-NN", "counts", counts
    for name, party in parties().items():
        yield "Parties of reverse k-NN", name, party


def test_every_public_attribute_is_in_a_table():
    seen = {heading: set() for heading in TABLES}
    for heading, what, thing in walked():
        names = public_names(thing)
        assert names <= set(TABLES[heading]), f"{what}: {sorted(names - set(TABLES[heading]))} in no table"
        seen[heading] |= names
    for heading, names in seen.items():
        written = {name for name in TABLES[heading] if " " not in name and "-" not in name}
        spare = written - names - {"refusal", "ledger", "diagnostics", "journal", "store"}
        assert not spare, f"{heading}: {sorted(spare)} is in the table and nowhere else"


def test_no_public_attribute_holds_private_records():
    """Arrays with one row for each record, or equal to the records, are for the operator only."""
    for heading, what, thing in walked():
        for name in public_names(thing):
            if TABLES[heading][name] != "everyone" or callable(getattr(thing, name)):
                continue
            value = getattr(thing, name)
            if isinstance(value, np.ndarray):
                assert N not in value.shape, f"{what}.{name} has a row for every record"


# --- neighbouring data sets with the same noise, and without what is paid for --------------------------


class PublicNoise(noise.Seeded):
    """Noise from one seed, samples from another, since neighbours draw different numbers of them."""

    def __init__(self, generator):
        super().__init__(generator)
        self.others, self.noisy = np.random.default_rng(12345), False

    @classmethod
    def of(cls, seed):
        return cls(np.random.default_rng(seed))

    def words(self, size):
        return super().words(size) if self.noisy else self.others.integers(0, 2**64, size, np.uint64)

    def _drawn(self, draw, *arguments):
        self.noisy = True
        try:
            return draw(*arguments)
        finally:
            self.noisy = False

    def gaussian(self, *arguments):
        return self._drawn(super().gaussian, *arguments)

    def laplace(self, *arguments):
        return self._drawn(super().laplace, *arguments)


@contextlib.contextmanager
def what_is_paid_for_cut_off():
    """Every release consists of its noise only; charges, checks and everything else are unchanged."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, real in (
            (labelling, "noisy_argmax", noisy_argmax),
            (labelling, "passes_screening", passes_screening),
            (private_knn, "noisy_label_set", noisy_label_set),
        ):
            patch.setattr(module, name, lambda event, votes, *rest, real=real: real(event, 0 * votes, *rest))
        patch.setattr(noisy_sgd, "_clipped_gradient", lambda points, labels, weights, clip: np.zeros_like(weights))
        answer, close = individual_knn.IndividualKNN._answer, Server.close
        released = np.random.default_rng(7)

        def answered(self, query, near):
            answer(self, query, near)
            return int(released.integers(CLASSES)), float(released.normal(100, 1))

        def closed(self):
            if self._protocol is None:
                self._sum = np.zeros_like(self._sum)
            return close(self)

        patch.setattr(individual_knn.IndividualKNN, "_answer", answered)
        patch.setattr(Server, "close", closed)
        for protocol in (LocalProtocol, SharesProtocol):
            real = protocol.randomize
            patch.setattr(
                protocol,
                "randomize",
                lambda self, entries, source, real=real: real(
                    self, np.tile(np.arange(entries.shape[1]), (len(entries), 1)), source
                ),
            )
        patch.setattr(noise, "Seeded", PublicNoise)
        yield


def written(value):
    """A value as exact text."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not isinstance(value, ac.Event):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return f"{type(value).__name__}{ {name: written(each) for name, each in fields.items()} }"
    if isinstance(value, (list, tuple)):
        return str([written(each) for each in value])
    if isinstance(value, dict):
        return str({name: written(each) for name, each in value.items()})
    return repr(value)


def seen(heading, thing):
    """Everything about an object that everyone may see."""
    found = {}
    for name in sorted(public_names(thing)):
        if TABLES[heading][name] != "everyone":
            continue
        value = getattr(thing, name)
        if name == "guarantee":
            value = value(1e-3)
        elif name == "planned" and callable(value):
            value = value(14) if len(inspect.signature(value).parameters) == 1 else None
        elif name in ("student", "session"):
            continue  # a student is a function of public points and labels; a session is drawn at random
        found[name] = written(value)
    return found


@contextlib.contextmanager
def told():
    """Everything that is printed, logged or warned about."""
    streams = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(streams[0]):
        warnings.simplefilter("always")
        with contextlib.redirect_stderr(streams[1]):
            yield lambda: (*(stream.getvalue() for stream in streams), [str(each.message) for each in caught])


@st.composite
def neighbours(draw, replaced=False):
    """The records and a neighbour: one record more, one less, or one replaced."""
    i = draw(st.integers(0, N - 1))
    record = np.array(draw(st.lists(st.floats(-3, 3, width=32), min_size=WIDTH, max_size=WIDTH)), np.float32)
    label = draw(st.integers(0, CLASSES - 1))
    if replaced:
        others, labels = X.copy(), Y.copy()
        others[i], labels[i] = record, label
        return others, labels
    if draw(st.booleans()):
        return np.delete(X, i, axis=0), np.delete(Y, i)
    return np.insert(X, i, record, axis=0), np.insert(Y, i, label)


BAD_QUERIES = (PUBLIC[:, :2], np.full((2, WIDTH), np.nan), PUBLIC[0], "no queries")


def refusals(ask):
    """Error messages for bad queries."""
    found = []
    for queries in BAD_QUERIES:
        with pytest.raises(ac.AccountantError) as error:
            ask(queries)
        found.append(str(error.value))
    return found


def observe_labeller(make, records, labels):
    with what_is_paid_for_cut_off(), told() as said:
        model = make().fit(records, labels)
        out = [model.label(PUBLIC[:8]), model.label(PUBLIC[8:])]
        heading = "Private-kNN, GNMAX, LNMAX"
        views = [seen(heading, thing) for thing in (model, *out)]
        return views, refusals(model.label), said()


def observe_individual(make, records, labels):
    with what_is_paid_for_cut_off(), told() as said:
        model = make().fit(records, labels)
        first = model.predict(PUBLIC[:9]).tolist()
        model.predict(PUBLIC[9:])
        return first, seen("Ind-KNN", model), refusals(model.predict), said()


def observe_training(make, records, labels):
    with what_is_paid_for_cut_off(), told() as said:
        model = make().fit(records, labels)
        return seen("Linear NoisySGD", model), refusals(model.predict), said()


def observe_reverse(changes, records, labels):
    with what_is_paid_for_cut_off(), told() as said:
        model = reverse(**changes)
        out = model.label(records, labels, PUBLIC)
        views = [seen("Reverse k-NN", thing) for thing in (model, out, *out.rounds)]
        return views, written(out.release), said()


@cache
def of_records(observe, name):
    """What is seen of the records themselves, with which neighbours are compared."""
    return observe(MAKERS[name], X, Y)


FEW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.each_run(2)
@pytest.mark.parametrize("name", LABELLERS)
@FEW
@given(pair=neighbours())
def test_labellers_tell_neighbours_apart_by_paid_releases_alone(name, pair):
    assert of_records(observe_labeller, name) == observe_labeller(LABELLERS[name], *pair)


@FEW
@given(pair=neighbours())
def test_label_sets_tell_neighbours_apart_by_paid_releases_alone(pair):
    def make():
        return private_knn_of(clip=1.0)

    views = [observe_labeller(make, x, np.eye(CLASSES, dtype=int)[y]) for x, y in ((X, Y), pair)]
    assert views[0] == views[1]


@FEW
@given(pair=neighbours())
def test_individual_knn_tells_neighbours_apart_by_paid_releases_alone(pair):
    assert of_records(observe_individual, "ind-knn") == observe_individual(individual, *pair)


@FEW
@given(pair=neighbours())
def test_training_tells_neighbours_apart_by_paid_releases_alone(pair):
    assert of_records(observe_training, "noisy-sgd") == observe_training(training, *pair)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("name", REVERSE)
@FEW
@given(data=st.data())
def test_reverse_knn_tells_neighbours_apart_by_paid_releases_alone(name, data):
    pair = data.draw(neighbours(replaced="add-remove" not in name))
    assert of_records(observe_reverse, name) == observe_reverse(REVERSE[name], *pair)


def test_the_cut_is_what_hides():
    """Without cutting, the same observers tell neighbours apart: they look at the right things."""
    pair = X, (Y + 1) % CLASSES
    sharp = {"vote_sigma": 1e-6, "screening_sigma": None, "sampling_rate": 1.0}
    labels = [private_knn_of(**sharp).fit(*each).label(PUBLIC).labels.tolist() for each in ((X, Y), pair)]
    assert labels[0] != labels[1]
    with what_is_paid_for_cut_off():
        labels = [private_knn_of(**sharp).fit(*each).label(PUBLIC).labels.tolist() for each in ((X, Y), pair)]
    assert labels[0] == labels[1]


# --- the commands --------------------------------------------------------------------------------------


@pytest.fixture
def quick_students(monkeypatch):
    """Few passes over the points: what students learn is public."""
    hidden, n_neighbors, clamping, _, seed = NetworkStudent.__init__.__defaults__
    monkeypatch.setattr(NetworkStudent.__init__, "__defaults__", (hidden, n_neighbors, clamping, 10, seed))


COMMON = ["--epsilon", "3", "--classes", "3", "--records", "40", "--seed", "1"]
COMMANDS = {
    "private-knn": ["label", "private-knn", "--delta", "1e-3", "--queries", "6"],
    "private-knn, screening": ["label", "private-knn", "--delta", "1e-3", "--queries", "8", "--screening-ratio", "2"],
    "gnmax": ["label", "gnmax", "--delta", "1e-3", "--queries", "6", "--teacher", "nearest"],
    "lnmax": ["label", "lnmax", "--delta", "1e-3", "--queries", "6", "--teacher", "logistic"],
    "noisy-sgd": ["label", "noisy-sgd", "--delta", "1e-3", "--steps", "5"],
    "reverse-knn": ["label", "reverse-knn", "--delta", "0", "--queries", "4", "--adjacency", "add-remove"],
    "ind-knn": ["predict", "ind-knn", "--delta", "1e-3"],
}


def observe_command(arguments, records, labels, folder, ending):
    """Status, output, and the bytes of every published file."""
    private, public, out = folder / "private.npz", folder / "public.npz", folder / f"labels.{ending}"
    np.savez(private, features=records, labels=labels)
    np.savez(public, features=PUBLIC)
    out.unlink(missing_ok=True)
    sources = ["--private", private, "--public", public, "--out", out]
    with what_is_paid_for_cut_off(), told() as said:
        status = main([str(each) for each in [*arguments, *COMMON, *sources]])
    assert status == 0, said()
    left = sorted(each.name for each in folder.iterdir())
    return status, said(), out.read_bytes(), left


WRITTEN = [
    *((name, "npz") for name in COMMANDS),
    *((name, "parquet") for name in ("private-knn", "reverse-knn", "ind-knn")),
    *((name, "parquet") for name in ("private-knn, screening", "gnmax", "lnmax", "noisy-sgd")),
]
"""All labelling commands write by the same code, so that the last ones are for audits."""


@pytest.mark.each_run(1)
@pytest.mark.usefixtures("quick_students")
@pytest.mark.parametrize(("name", "ending"), audit_after(len(COMMANDS) + 3, WRITTEN))
def test_commands_tell_neighbours_apart_by_paid_releases_alone(name, ending, tmp_path):
    first = observe_command(COMMANDS[name], X, Y, tmp_path, ending)

    @settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(pair=neighbours())
    def check(pair):
        assert observe_command(COMMANDS[name], *pair, tmp_path, ending) == first

    check()


@pytest.mark.usefixtures("quick_students")
@pytest.mark.parametrize(
    "name",
    audit_after(4, ["private-knn", "noisy-sgd", "reverse-knn", "ind-knn", "private-knn, screening", "gnmax", "lnmax"]),
)
def test_json_tells_neighbours_apart_by_paid_releases_alone(name, tmp_path):
    pair = np.delete(X, 3, axis=0), np.delete(Y, 3)
    arguments = [*COMMANDS[name], "--json"]
    views = [observe_command(arguments, *each, tmp_path, "npz") for each in ((X, Y), pair)]
    assert views[0] == views[1]
    assert json.loads(views[0][1][0])["epsilon"] <= 3
