import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import accountant as ac
from accountant.cli import main
from accountant.interop.histories import import_state, run_of_history

HISTORY = [(1.0, 0.01, 10_000), (1.2, 0.02, 5)]
RUN = 10_000 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01) + 5 * ac.PoissonSubsampled(ac.Gaussian(1.2), 0.02)
STATE = {"history": HISTORY, "mechanism": "rdp"}


class Rebuilt:
    """Pickles as a call of a function of PyTorch, as tensors do, with its storage beside the pickle."""

    def __init__(self, name="torch._utils _rebuild_tensor_v2"):
        self.name = name

    def __reduce__(self):
        return Named(self.name), (1, (2, 3), OrderedDict())


class Named:
    """Stands for a function of a module that need not be installed."""

    def __init__(self, name):
        self.name = name

    def __call__(self):
        raise AssertionError("pickled by name alone")


class Storage:
    """Is kept beside the pickle."""


class TorchLike(pickle._Pickler):
    """Writes classes by any name, also of modules that are not installed."""

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Named):
            module, name = value.name.split()
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
            return None
        return super().save(value, save_persistent_id)

    def persistent_id(self, value):
        return ("storage", "float", "0", "cpu", 6) if isinstance(value, Storage) else None


def checkpoint(path, value, *, pickle_bytes=None):
    """A file as torch.save writes it."""
    stream = io.BytesIO()
    if pickle_bytes is None:
        pickler = TorchLike(stream, protocol=2)
        pickler.dispatch_table = {}
        pickler.dump(value)
        pickle_bytes = stream.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("checkpoint/data.pkl", pickle_bytes)
        archive.writestr("checkpoint/byteorder", "little")
        archive.writestr("checkpoint/data/0", b"\0" * 24)
    return path


ENGINE = OrderedDict(
    module_state_dict=OrderedDict(weight=(Storage(), 1)),
    privacy_accountant_state_dict=OrderedDict(STATE),
    optimizer_state_dict={"state": {0: {"step": 3}}, "param_groups": [{"lr": 0.1}]},
)


def test_states_in_json_become_plans(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE))
    assert import_state(path).run == RUN
    assert import_state(path, 1e-6).delta == 1e-6


def test_checkpoints_become_plans_with_tensors_beside(tmp_path):
    state = {**ENGINE, "model": {"weight": Rebuilt(), "epoch": Rebuilt("numpy.core.multiarray scalar")}}
    assert import_state(checkpoint(tmp_path / "checkpoint.pt", state)).run == RUN
    assert import_state(checkpoint(tmp_path / "accountant.pt", OrderedDict(STATE))).run == RUN


def test_checkpoints_of_torch_itself(tmp_path):
    torch = pytest.importorskip("torch")
    state = {**ENGINE, "module_state_dict": torch.nn.Linear(2, 3).state_dict()}
    torch.save(state, tmp_path / "checkpoint.pt")
    assert import_state(tmp_path / "checkpoint.pt").run == RUN


@pytest.mark.parametrize("name", ["posix system", "builtins exec", "os _exit", "subprocess Popen"])
def test_nothing_in_a_checkpoint_is_executed(name, tmp_path):
    """The file would write another one if what it names were called."""
    victim = tmp_path / "written"
    module, function = name.split()
    argument = f"touch {victim}" if module in ("posix", "subprocess") else f"open({str(victim)!r}, 'w')"
    program = b"(dp0\nS'x'\n" + f"c{module}\n{function}\n".encode() + f"(S{argument!r}\ntR".encode()
    program += b"sS'history'\n(lp1\n(F1.0\nF0.01\nI10\ntasS'mechanism'\nS'rdp'\ns."
    path = checkpoint(tmp_path / "checkpoint.pt", None, pickle_bytes=program)
    assert import_state(path).run == 10 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)
    assert not victim.exists()


def test_attributes_of_dictionaries_in_checkpoints_are_ignored(tmp_path):
    program = b"ccollections\nOrderedDict\n)R}S'get'\nI3\nsb"
    program += b"S'history'\n(lp1\n(F1.0\nF0.01\nI10\ntasS'mechanism'\nS'rdp'\ns."
    assert import_state(checkpoint(tmp_path / "checkpoint.pt", None, pickle_bytes=program)).run.releases == 10


def test_small_checkpoints_take_little_memory(tmp_path):
    """The file asks for the place of an object that has the number 2**26, in a table of 1 GB."""
    path = checkpoint(tmp_path / "checkpoint.pt", None, pickle_bytes=b"\x80\x02}r" + struct.pack("<I", 2**26) + b".")
    tracemalloc.start()
    with pytest.raises(ac.PlanError, match="0 histories"):
        import_state(path)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


HISTORY_OF = b"}(S'mechanism'\nS'rdp'\nS'history'\n%bu."
"""A pickle of a state around that of a history."""

LAUGHS = b"]q\0" + b"".join(b"0]q%c" % i + (b"h%c" % (i - 1) + b"a") * 10 for i in range(1, 40))
"""Ten times a list of ten times a list, and so on: 10**39 parts."""


def compressed(path, kind):
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("checkpoint/data.pkl", pickle.dumps(STATE))


def flower_state(**event):
    config = {"sampling_method": "poisson", "neighboring_relation": "add-or-remove-one"}
    config |= {"target_delta": 1e-5, "population_size": 1000}
    entry = {"event": {"noise_multiplier": 1.0, "sample_size": 10, "population_size": 1000, **event}, "count": 3}
    return json.dumps({"schema_version": 1, "config": config, "compositions": [entry]})


BROKEN = {
    "deep lists": lambda path: checkpoint(path, None, pickle_bytes=HISTORY_OF % (b"]" * 10**5 + b"a" * (10**5 - 1))),
    "shared lists": lambda path: checkpoint(path, None, pickle_bytes=HISTORY_OF % LAUGHS),
    "bzip2": lambda path: compressed(path, zipfile.ZIP_BZIP2),
    "deflate": lambda path: compressed(path, zipfile.ZIP_DEFLATED),
    "another population": lambda path: path.write_text(flower_state(population_size=10**9)),
    "no pickle": lambda path: zipfile.ZipFile(path, "w").close(),
    "cut off": lambda path: checkpoint(path, None, pickle_bytes=b"\x80\x02}q\x00("),
    "not a state": lambda path: checkpoint(path, {"history": 3}),
    "two states": lambda path: checkpoint(path, {"a": STATE, "b": {**STATE}}),
    "a state in a state": lambda path: checkpoint(path, {**STATE, "more": STATE}),
    "states in a list": lambda path: path.write_text(json.dumps({"models": [STATE, {"inner": [STATE]}]})),
    "no list of rounds": lambda path: path.write_text(json.dumps({**json.loads(flower_state()), "compositions": {}})),
    "rounds without events": lambda path: path.write_text(
        json.dumps({**json.loads(flower_state()), "compositions": [5]})
    ),
    "text": lambda path: path.write_text("history"),
    "bytes": lambda path: path.write_bytes(b"\x80\x02}q\x00."),
    "a tensor of steps": lambda path: checkpoint(path, {**STATE, "history": [(1.0, 0.1, Rebuilt())]}),
    "no noise": lambda path: path.write_text(json.dumps({**STATE, "history": [[0.0, 0.1, 3]]})),
    "not a number": lambda path: path.write_text('{"history": [[NaN, 0.1, 3]], "mechanism": "rdp"}'),
    "rate above 1": lambda path: path.write_text(json.dumps({**STATE, "history": [[1.0, 1.5, 3]]})),
    "pair": lambda path: path.write_text(json.dumps({**STATE, "history": [[1.0, 1.5]]})),
    "empty": lambda path: path.write_text(json.dumps({**STATE, "history": []})),
    "missing": lambda path: None,
    "other version": lambda path: path.write_text(json.dumps({"schema_version": 2, "compositions": []})),
    "half a Flower state": lambda path: path.write_text(json.dumps({"schema_version": 1, "compositions": []})),
}


@pytest.mark.parametrize("write", BROKEN.values(), ids=BROKEN)
def test_what_is_no_state_is_refused_in_one_line(write, tmp_path, capsys):
    path = tmp_path / "state"
    write(path)
    assert main(["import", str(path)]) == 2
    error = capsys.readouterr().err
    assert "accepted" in error
    assert error.count("\n") == 1


def test_states_of_flower_become_plans(tmp_path):
    (tmp_path / "state.json").write_text(flower_state())
    assert import_state(tmp_path / "state.json").run == 3 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)


def test_command_writes_a_plan(tmp_path, capsys):
    state, plan = tmp_path / "state.json", tmp_path / "plan.toml"
    state.write_text(json.dumps(STATE))
    assert main(["import", str(state), "--delta", "1e-5", "-o", str(plan)]) == 0
    assert ac.load_plan(plan).run == RUN
    assert main(["import", str(state), "-o", str(plan)]) == 2  # it exists
    assert main(["import", str(state), "-o", str(tmp_path / "plan.txt")]) == 2
    capsys.readouterr()
    assert main(["import", str(state)]) == 0
    assert "sampling_rate = 0.01" in capsys.readouterr().out


def test_steps_without_noise_are_no_part_of_the_run(tmp_path):
    assert run_of_history([(0.0, 0.1, 3), *HISTORY]) == RUN
    # without a record, or without a step, there was nothing to protect
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**STATE, "history": [[0.0, 0.0, 3], [0.0, 0.1, 0], *STATE["history"]]}))
    assert import_state(path).run == import_state_of(STATE, tmp_path).run


def import_state_of(state, folder):
    path = folder / "plain.json"
    path.write_text(json.dumps(state))
    return import_state(path)


# --- nothing is forgotten ----------------------------------------------------------------------------------------

DEARER = {"history": [(0.5, 0.5, 10_000)], "mechanism": "rdp"}


class Trainer:
    """An object with attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    """An object whose attributes are no dictionary."""

    __slots__ = ("history", "state")

    def __init__(self, state=None, history=None):
        self.state, self.history = state, history


class Numbered:
    """A number that pickles as one of NumPy does."""

    def __reduce__(self):
        return Named("numpy.core.multiarray scalar"), (Rebuilt("numpy dtype"), b"\0" * 8)


Step = namedtuple("Step", "sigma rate steps")


class SlottedStep:
    """Three numbers in slots."""

    __slots__ = ("rate", "sigma", "steps")

    def __init__(self, sigma, rate, steps):
        self.sigma, self.rate, self.steps = sigma, rate, steps


def nested(state, levels):
    for _ in range(levels):
        state = {"inner": [state]}
    return state


def attributed(**attributes):
    """An OrderedDict with attributes, as state_dict of a module has."""
    made = OrderedDict()
    made.__dict__.update(attributes)
    return made


@pytest.mark.parametrize("levels", [0, 3, 4, 9, 50])
def test_a_second_history_is_found_at_any_level(levels, tmp_path):
    """More than eight levels down it was priced as nothing: 100 steps of noise 1 beside 10 000 of noise 0.5."""
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"a": STATE, "b": nested(DEARER, levels)}))
    with pytest.raises(ac.PlanError, match="2 histories in it"):
        import_state(path)
    path.write_text(json.dumps(nested(STATE, levels)))
    assert import_state(path).run == RUN
    with pytest.raises(ac.PlanError, match="2 histories in it"):
        import_state(checkpoint(tmp_path / "checkpoint.pt", {"a": nested(DEARER, levels), "b": STATE}))


HIDDEN = {
    "a defaultdict": defaultdict(dict, {"inner": DEARER}),
    "a state that is one": defaultdict(list, DEARER),
    "attributes": Trainer(epoch=3, state=DEARER),
    "slots": Slotted(DEARER),
    "attributes of a mapping": attributed(_metadata=DEARER),
    "an accountant itself": Trainer(history=DEARER["history"], sample_rate=0.5),
    "an accountant with a deque": Trainer(history=deque(DEARER["history"])),
    "a deque of steps": {**DEARER, "history": deque(DEARER["history"])},
    "a deque of states": deque([DEARER]),
    "a key": {frozenset([Trainer(state=DEARER)]): 1},
    "a state of Flower": {"schema_version": 1, "compositions": []},
    "a state of Flower without its version": {"config": {}, "compositions": []},
    "rounds of Flower": {"compositions": [{"event": {"noise_multiplier": 0.5}, "count": 10_000}]},
    "an accountant with a number of NumPy": Trainer(history=[(Numbered(), 0.5, 10_000)]),
    "an accountant with numbers of NumPy alone": Trainer(history=[(Numbered(), Numbered(), Numbered())]),
    "an accountant with named tuples": Trainer(history=[Step(0.5, 0.5, 10_000)]),
    "an accountant with objects": Trainer(history=[Trainer(sigma=0.5, rate=0.5, steps=Numbered())]),
    "an accountant with slots": Slotted(history=DEARER["history"]),
    "steps with slots": Trainer(history=[SlottedStep(0.5, 0.5, 10_000)]),
    "a history without its mechanism": {"history": DEARER["history"]},
}


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_a_second_history_is_found_in_any_object(hidden, tmp_path):
    """In what a pickle names, such as a defaultdict, or of another kind than a list, it was priced as nothing."""
    with pytest.raises(ac.PlanError, match="2 histories in it"):
        import_state(checkpoint(tmp_path / "checkpoint.pt", {**ENGINE, "more": hidden}))


def test_a_history_in_an_object_is_read(tmp_path):
    for number, holder in enumerate((Trainer(state=STATE), defaultdict(list, STATE), Trainer(history=HISTORY))):
        assert import_state(checkpoint(tmp_path / f"{number}.pt", {"engine": holder})).run == RUN
    with pytest.raises(ac.PlanError, match="history = an object that is not read; accepted: a list"):
        import_state(checkpoint(tmp_path / "deque.pt", {**STATE, "history": deque(HISTORY)}))


def test_one_state_under_two_keys_is_one_history(tmp_path):
    """It was refused as two."""
    assert import_state(checkpoint(tmp_path / "checkpoint.pt", {"a": STATE, "b": [STATE]})).run == RUN


def test_logs_of_losses_are_no_histories(tmp_path):
    logs = {"a": Trainer(history=[{"loss": 0.3}]), "b": Trainer(history=deque([0.3, 0.2])), "c": {"history": [0.3]}}
    logs |= {"d": {"history": [Numbered(), Rebuilt()]}, "e": Trainer(history=[Trainer(loss=0.3, accuracy=0.9)])}
    logs |= {"f": {"compositions": ["a fugue"]}, "g": Slotted(history=[(0.3, 0.2)])}
    assert import_state(checkpoint(tmp_path / "checkpoint.pt", {**ENGINE, **logs})).run == RUN


def test_a_key_that_stands_twice_is_refused(tmp_path):
    """The first of two values was forgotten."""
    path = tmp_path / "state.json"
    path.write_text(f'{{"a": {json.dumps(DEARER)}, "a": {json.dumps(STATE)}}}')
    with pytest.raises(ac.PlanError, match="a key twice among"):
        import_state(path)
