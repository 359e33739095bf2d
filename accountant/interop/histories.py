"""States that other accountants saved, as plans: nothing in such a file is executed, or imported."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from accountant.errors import ParameterError, PlanError, integer, real, shorten
from accountant.events.composition import Composition
from accountant.events.gaussian import Gaussian
from accountant.events.subsampled import PoissonSubsampled
from accountant.interop.flower_states import tables_of_flower
from accountant.plan import Plan

__all__ = ["exposes", "import_state", "read_history", "run_of_history"]

LARGEST = 2**26
"""Bytes of a file, or of the pickle in an archive, that are read; tensors are stored beside it, and are not read."""

ACCEPTED = "accepted: an Opacus or Flower state in JSON, or a checkpoint of torch.save that holds an Opacus state"


class Steps(NamedTuple):
    """An entry of an Opacus history: so many steps in a row, all with one noise multiplier and sample rate."""

    sigma: float
    rate: float
    steps: int


def read_history(history: object) -> list[Steps]:
    """The entries of an Opacus history, checked.

    Raises
    ------
    ParameterError
        It is no list of entries, an entry is not of that form, or a number is out of range.
    """
    # a mapping without entries would look like a history without steps
    if not isinstance(history, Iterable) or isinstance(history, Mapping | str | bytes):
        raise ParameterError(
            f"history = {shorten(history)}; accepted: a list of (noise multiplier, sample rate, steps)"
        )
    entries = []
    for entry in history:
        if not isinstance(entry, tuple | list) or len(entry) != 3:
            raise ParameterError(f"history entry {shorten(entry)}; accepted: (noise multiplier, sample rate, steps)")
        sigma = real("noise multiplier", entry[0], 0.0, 1e50)
        rate = real("sample rate", entry[1], 0.0, 1.0)
        entries.append(Steps(sigma, rate, integer("steps", entry[2], 0, 10**30)))
    return entries


def run_of_history(history: object) -> Composition:
    """The private part of an Opacus history; errors as for `read_history`."""
    return Composition(
        (PoissonSubsampled(Gaussian(each.sigma), each.rate), each.steps)
        for each in read_history(history)
        if each.sigma > 0.0
    )


def exposes(history: object) -> bool:
    """Whether a step of a history had no noise: no epsilon is enough for it; errors as for `read_history`."""
    return any(each.sigma == 0.0 and each.rate > 0.0 and each.steps > 0 for each in read_history(history))


def import_state(path: str | Path, delta: float | None = None) -> Plan:
    """The plan that a saved state spends.

    Parameters
    ----------
    path : str or Path
        JSON: the `state_dict` of an Opacus accountant (its key "history"), or that of a Flower accountant (its keys
        "config" and "compositions"). Any other file: a checkpoint that `torch.save` wrote (PyTorch 1.6 or later), such
        as that of Opacus' `PrivacyEngine.save_checkpoint`. The state may stand anywhere in it, also in an object.
    delta : float, optional
        Of the plan; a Flower state has its own.

    Raises
    ------
    PlanError
        The file cannot be read, or holds no such state, or several.
    """
    source = Path(path)
    try:
        if source.stat().st_size > LARGEST and not zipfile.is_zipfile(source):
            raise PlanError(f"{source} has more than {LARGEST} bytes; {ACCEPTED}")
        state = _read_checkpoint(source) if zipfile.is_zipfile(source) else _read_json(source)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise PlanError(f"cannot read {source}: {error}; {ACCEPTED}") from None
    try:
        tables = _tables(state)
    except ParameterError as error:
        raise PlanError(f"{source}: {error}") from None
    if not tables["release"]:
        raise PlanError(f"{source}: its history is empty, so there is nothing to price; accepted: one or more steps")
    lines = tables.pop("release")
    stated = {} if delta is None else {"delta": delta}
    return Plan.from_tables(source.name, {**tables, **stated, "release": lines})


def _tables(state: Any) -> dict[str, Any]:
    """The tables of a plan."""
    found = _states(state)
    if len(found) != 1:
        raise ParameterError(f"{len(found)} histories in it; {ACCEPTED}")
    if "compositions" in found[0]:
        return {"description": "Imported from the state of a Flower accountant.", **tables_of_flower(found[0])}
    history = read_history(found[0]["history"])
    run_of_history(history)
    if exposes(history):
        raise ParameterError("a step of its history had no noise: no epsilon is enough; accepted: noise above 0")
    lines = [
        {"name": f"steps-{number}", "event": "gaussian", "sigma": sigma, "sampling_rate": rate, "count": steps}
        for number, (sigma, rate, steps) in enumerate(history, 1)
        if sigma > 0.0
    ]
    return {"description": "Imported from the state of an Opacus accountant.", "release": lines}


def _states(state: Any) -> list[Mapping[Any, Any]]:
    """All states of accountants in a value, wherever they are, each object once.

    To read one of several would be to forget what the others spent, and so would be to leave a part unread.
    """
    found, seen, left = list[Mapping[Any, Any]](), set[int](), [state]
    while left:
        each = left.pop()
        if not isinstance(each, Mapping | list | tuple | set | frozenset | _Inert) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Mapping):
            found += [each] * (_is_of_flower(each, each is state) + _is_of_opacus(each))
            left += [*each, *each.values()]
        elif not isinstance(each, _Inert):
            left += each
        if isinstance(each, _Inert | _Mapping):
            left += each.held
    return found


def _is_of_flower(mapping: Mapping[Any, Any], whole: bool) -> bool:
    """Whether a mapping, the whole state or a part of it, may hold the rounds of a Flower accountant."""
    rounds = mapping.get("compositions", None)
    if whole or "schema_version" in mapping or "config" in mapping:
        return "compositions" in mapping
    return isinstance(rounds, list | tuple) and any(isinstance(each, Mapping) and "event" in each for each in rounds)


def _is_of_opacus(mapping: Mapping[Any, Any]) -> bool:
    """Whether a mapping may hold the history of an Opacus accountant, and no log of losses.

    An accountant that was pickled itself has its mechanism by its class, not beside the history.
    """
    history = mapping.get("history")
    if "mechanism" in mapping:
        return "history" in mapping
    entries = history.held if isinstance(history, _Inert) else history
    return isinstance(entries, list | tuple) and any(map(_may_be_step, entries))


def _may_be_step(entry: object) -> bool:
    """Whether an entry of a history has three parts, numbers of a step or what is not read in their place."""
    if isinstance(entry, _Inert):
        entry = _parts(entry)
    if not isinstance(entry, tuple | list):
        return False
    try:
        return bool(read_history([[1 if isinstance(part, _Inert) else part for part in entry]]))
    except ParameterError:
        return False


def _parts(entry: _Inert) -> list[Any]:
    """What an object was made of, such as a named tuple, or its attributes."""
    parts: list[Any] = []
    for each in entry.held:
        # of an object with slots a pair is kept: its dictionary or None, and the slots
        slotted = isinstance(each, tuple) and len(each) == 2 and isinstance(each[1], Mapping)
        for part in each if slotted else [each]:
            parts += part.values() if isinstance(part, Mapping) else [] if part is None else [part]
    return parts


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path} is neither JSON nor an archive of torch.save: {error}; {ACCEPTED}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping; of two values with one key the first would be forgotten."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key twice among {shorten([key for key, _ in pairs])}")
    return found


# --- checkpoints ------------------------------------------------------------------------------------------


class _Inert:
    """Stands for whatever a pickle names: it is never imported, and does nothing but hold what it is given."""

    __slots__ = ("held", "pairs")

    held: list[Any]
    pairs: dict[Any, Any] | None

    def __new__(cls, *arguments: Any, **options: Any) -> _Inert:
        made = super().__new__(cls)
        made.held, made.pairs = [*arguments, *options.values()], None
        return made

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __repr__(self) -> str:
        return "an object that is not read"

    def __setstate__(self, state: Any) -> None:
        self.held.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.pairs is None:
            self.pairs = {}
            self.held.append(self.pairs)
        self.pairs[key] = value

    def append(self, value: Any) -> None:
        """Hold an item."""
        self.held.append(value)

    def extend(self, values: Any) -> None:
        """Hold items."""
        self.held.extend(values)

    def add(self, value: Any) -> None:
        """Hold an item."""
        self.held.append(value)


class _Mapping(dict[Any, Any]):
    """Stands for an OrderedDict, of which a pickle cannot replace methods by attributes."""

    held: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        self.held = (*self.held, state)


class _PlainReader(pickle._Unpickler):
    """Reads numbers, texts and containers; all else becomes `_Inert`. Nothing that a pickle names is looked up.

    The reader in Python: that in C reserves memory for as many objects as a pickle of ten bytes says.
    """

    def find_class(self, module: str, name: str) -> Any:
        return _Mapping if (module, name) == ("collections", "OrderedDict") else _Inert

    def persistent_load(self, identifier: Any) -> Any:
        return _Inert(identifier)


def _read_checkpoint(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        pickles = [entry for entry in archive.infolist() if entry.filename.rpartition("/")[2] == "data.pkl"]
        # torch.save does not compress; what is compressed may be any size, whatever the archive says
        fits = len(pickles) == 1 and pickles[0].file_size <= LARGEST and pickles[0].compress_type == zipfile.ZIP_STORED
        if not fits:
            raise PlanError(f"{path} holds no single data.pkl of at most {LARGEST} bytes, uncompressed; {ACCEPTED}")
        content = archive.read(pickles[0])
    try:
        return _PlainReader(io.BytesIO(content)).load()
    except Exception as error:  # whatever a broken pickle may raise
        raise PlanError(f"{path}: its data.pkl cannot be read ({shorten(str(error))}); {ACCEPTED}") from None
