"""States that other accountants saved, as plans: nothing in such a file is executed, or imported."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from accountant.errors import ParameterError, PlanError, integer, real, shorten
from accountant.events.composition import Composition
from accountant.events.gaussian import Gaussian
from accountant.events.subsampled import PoissonSubsampled
from accountant.interop.flower_states import tables_of_flower
from accountant.plan import Plan

__all__ = ["exposes", "import_state", "run_of_history"]

LARGEST = 2**26
"""Bytes of a file, or of the pickle in an archive, that are read; tensors are stored beside it, and are not read."""

DEEPEST = 4
"""Levels of mappings in which a history is looked for."""

ACCEPTED = "accepted: an Opacus or Flower state in JSON, or a checkpoint of torch.save that holds an Opacus state"


def run_of_history(history: Iterable[Any]) -> Composition:
    """The private part of an Opacus history: (noise multiplier, sample rate, steps) each.

    Raises
    ------
    ParameterError
        An entry is not of that form, or a number is out of range.
    """
    entries = []
    for entry in history:
        if not isinstance(entry, tuple | list) or len(entry) != 3:
            raise ParameterError(f"history entry {shorten(entry)}; accepted: (noise multiplier, sample rate, steps)")
        sigma = real("noise multiplier", entry[0], 0.0, 1e50)
        rate = real("sample rate", entry[1], 0.0, 1.0)
        steps = integer("steps", entry[2], 0, 10**30)
        if sigma > 0.0:
            entries.append((PoissonSubsampled(Gaussian(sigma), rate), steps))
    return Composition(entries)


def exposes(history: Iterable[Any]) -> bool:
    """Whether a step of a history had no noise: no epsilon is enough for it."""
    return any(entry[0] == 0.0 and entry[1] > 0.0 and entry[2] > 0 for entry in history)


def import_state(path: str | Path, delta: float | None = None) -> Plan:
    """The plan that a saved state spends.

    Parameters
    ----------
    path : str or Path
        JSON: the `state_dict` of an Opacus accountant (its key "history"), or that of a Flower accountant (its keys
        "config" and "compositions"). Any other file: a checkpoint that `torch.save` wrote (PyTorch 1.6 or later), such
        as that of Opacus' `PrivacyEngine.save_checkpoint`.
    delta : float, optional
        Of the plan; a Flower state has its own.

    Raises
    ------
    PlanError
        The file cannot be read, or holds no such state.
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
    if isinstance(state, Mapping) and "compositions" in state:
        return {"description": "Imported from the state of a Flower accountant.", **tables_of_flower(state)}
    found = _histories(state, DEEPEST)
    if len(found) != 1:
        raise ParameterError(f"{len(found)} histories in it; {ACCEPTED}")
    (history,) = found
    run_of_history(history)
    if exposes(history):
        raise ParameterError("a step of its history had no noise: no epsilon is enough; accepted: noise above 0")
    lines = [
        {"name": f"steps-{number}", "event": "gaussian", "sigma": sigma, "sampling_rate": rate, "count": steps}
        for number, (sigma, rate, steps) in enumerate(history, 1)
    ]
    return {"description": "Imported from the state of an Opacus accountant.", "release": lines}


def _histories(state: Any, depth: int) -> list[list[Any]]:
    if not isinstance(state, Mapping) or depth == 0:
        return []
    own = state.get("history")
    if isinstance(own, list | tuple) and "mechanism" in state:
        return [list(own)]
    return [found for value in state.values() for found in _histories(value, depth - 1)]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path} is neither JSON nor an archive of torch.save: {error}; {ACCEPTED}") from None


# --- checkpoints ------------------------------------------------------------------------------------------


class _Inert:
    """Stands for whatever a pickle names: it is never imported, takes any arguments, and does nothing."""

    def __new__(cls, *arguments: Any, **options: Any) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Take an item, and forget it."""

    def extend(self, values: Any) -> None:
        """Take items, and forget them."""

    def add(self, value: Any) -> None:
        """Take an item, and forget it."""


class _Mapping(dict[Any, Any]):
    """Stands for an OrderedDict, of which a pickle cannot replace methods by attributes."""

    def __setstate__(self, state: Any) -> None:
        pass


class _PlainReader(pickle._Unpickler):
    """Reads numbers, texts and containers; all else becomes `_Inert`. Nothing that a pickle names is looked up.

    The reader in Python: that in C reserves memory for as many objects as a pickle of ten bytes says.
    """

    def find_class(self, module: str, name: str) -> Any:
        return _Mapping if (module, name) == ("collections", "OrderedDict") else _Inert

    def persistent_load(self, identifier: Any) -> Any:
        return _Inert()


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
