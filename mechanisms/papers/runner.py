"""Runs an item: one unit for each row and seed, kept on disk as soon as it is done, so that a killed run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import accountant as ac
from mechanisms.papers.item import Item, ItemError, Row
from mechanisms.papers.prices import compute_price, digest_votes
from mechanisms.papers.runs import measure
from mechanisms.papers.sources import describe_source, fill_source, find_parts
from mechanisms.phases import phase
from mechanisms.rounds import NothingAnswered
from mechanisms.validation import check_count

__all__ = ["Request", "Result", "RowResult", "choose_units", "refuse_secret_votes", "reproduce"]


@dataclass(frozen=True)
class Request:
    """How an item is to be run.

    Attributes
    ----------
    data : mapping
        The user's files, by name: ``mnist``, ``svhn``, ``cifar10`` and others that items need.
    small : bool
        Run on real data that packages bring along.
    out : Path or None
        Directory of the results, which also keeps units that are done; None keeps nothing.
    seeds : int or None
        Most seeds of a row; None: as many as its file says.
    public_votes : bool
        The votes in the user's file are public or made up: prices that depend on them may be written.
    """

    data: Mapping[str, str] = field(default_factory=dict)
    small: bool = False
    out: Path | None = None
    seeds: int | None = None
    public_votes: bool = False


@dataclass(frozen=True)
class RowResult:
    """What was found for a row.

    Attributes
    ----------
    row : Row
    priced : dict
        Numbers by computation, by quantity.
    measured : tuple of dict
        Numbers of each run, in the order of the seeds.
    refused : str
        Why the row was not run; empty if it was.
    """

    row: Row
    priced: dict[str, float]
    measured: tuple[dict[str, float], ...] = ()
    refused: str = ""

    def values(self, quantity: str) -> tuple[float, ...]:
        """Ours: the price if there is one, else what was measured, one value for each seed."""
        if quantity in self.priced:
            return (self.priced[quantity],)
        name = "run_epsilon" if quantity == "epsilon" else quantity
        return tuple(each[name] for each in self.measured if name in each)


@dataclass(frozen=True)
class Result:
    """All rows of an item."""

    item: Item
    request: Request
    rows: tuple[RowResult, ...]


@dataclass(frozen=True)
class _Unit:
    """One row with one seed (None: a price)."""

    number: int
    row: Row
    seed: int | None

    def digest(self, item: Item, given: Mapping[str, str]) -> str:
        """A name for the unit's file: another one if the declaration, the data or the version differ."""
        run = self.row.run if self.seed is not None else self.row.price
        votes = self.row.prices_votes and given.get("votes")
        files = describe_source(run or {}, given) if self.seed is not None else [digest_votes(votes) if votes else None]
        about = [self.seed, run, sorted(item.quantities), files, ac.__version__]
        return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:20]


def reproduce(item: Item, request: Request) -> Result:
    """Run all rows of an item.

    Parameters
    ----------
    item : Item
    request : Request

    Raises
    ------
    ItemError
        Nothing is to be computed, or data are not given for any of it; before anything runs. Rows whose data are not
        given are left out where others can be computed.
    accountant.DataDependentError
        As for `refuse_secret_votes`, where results are kept.
    accountant.AccountantError
        Data cannot be used, or settings and data do not go together.
    """
    rows, absent, units = choose_units(item, request)
    found: dict[tuple[int, int | None], dict[str, Any]] = {}
    same: dict[str, dict[str, Any]] = {}
    with phase(f"{item.paper} {item.name}", len(units)) as tick:
        for done, unit in enumerate(units):
            tick(done)
            digest = unit.digest(item, request.data)
            if digest not in same:  # rows may share a run
                same[digest] = _compute(unit, item, request)
            found[unit.number, unit.seed] = same[digest]
    results = []
    for number, row in enumerate(rows):
        measured = [found[number, seed] for seed in range(row.seeds) if (number, seed) in found]
        refused = absent[number] or next((str(each["refused"]) for each in measured if "refused" in each), "")
        kept = tuple(each for each in measured if "refused" not in each)
        results.append(RowResult(row, found.get((number, None), {}), kept, refused))
    return Result(item, request, tuple(results))


def choose_units(item: Item, request: Request) -> tuple[list[Row], list[str], list[_Unit]]:
    """The rows of an item, why the run of each cannot be made (empty if it can), and what is to be computed.

    Errors as for `reproduce`; nothing runs, and nothing is written.
    """
    if request.out is not None:
        refuse_secret_votes(item, request)
    if not item.rows:
        raise ItemError(f"{item.paper} {item.name}: {item.status}; accepted: an item that the list shows as running")
    rows = item.choose_rows(request.small)
    if request.small and item.runs and item.small is None:
        raise ItemError(
            f"{item.paper} {item.name} --small: {item.missing or 'no small data'}; accepted: without --small"
        )
    if request.seeds is not None:
        rows = [replace(row, seeds=min(row.seeds, check_count("seeds", request.seeds, 1))) for row in rows]
    absent = [_find_absent(row, request.data) for row in rows]
    units = [unit for number, row in enumerate(rows) for unit in _list_units(number, row) if _can_run(unit, absent)]
    if not units:
        raise ItemError(f"{item.paper} {item.name}: {next(filter(None, absent))}")
    return rows, absent, units


def refuse_secret_votes(item: Item, request: Request) -> None:
    """Refuse to write prices of an item that depend on the user's votes, unless these are public.

    Raises
    ------
    accountant.DataDependentError
    """
    if "votes" in request.data and not request.public_votes and any(row.prices_votes for row in item.rows):
        raise ac.DataDependentError(
            f"{item.paper} {item.name}: its price at the votes in {request.data['votes']} depends on private data; "
            "accepted: --public-votes (public_votes=True) if they are public or made up, or no --data votes"
        )


def _find_absent(row: Row, given: Mapping[str, str]) -> str:
    """Which data of a row's run were not given, and how to give them; empty if none."""
    for value in (row.run or {}).values():
        if isinstance(value, str) and "{" in value:
            try:
                fill_source(value, given)
            except ItemError as error:
                return f"not run: {error}"
    return ""


def _can_run(unit: _Unit, absent: Sequence[str]) -> bool:
    return unit.seed is None or not absent[unit.number]


def _list_units(number: int, row: Row) -> Iterator[_Unit]:
    if row.price is not None:
        yield _Unit(number, row, None)
    if row.run is not None:
        for seed in range(row.seeds):
            yield _Unit(number, row, seed)


def _compute(unit: _Unit, item: Item, request: Request) -> dict[str, Any]:
    """The numbers of a unit: those on disk, or computed and then put there, whole or not at all."""
    path = None
    if request.out is not None:
        folder = request.out / "units"  # of all items: some share runs
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{unit.digest(item, request.data)}.json"
        if (kept := _read(path)) is not None:
            return kept
    if unit.seed is None:
        assert unit.row.price is not None
        found: dict[str, Any] = dict(compute_price(unit.row.price, request.data.get("votes")))
    else:
        assert unit.row.run is not None
        parts = find_parts(unit.row.run, request.data, unit.seed)
        try:
            found = dict(measure(unit.row.run, parts, unit.seed, item.quantities))
        except (ac.CalibrationError, NothingAnswered) as error:  # a result, too
            found = {"refused": str(error)}
    if path is not None:
        ac.files.write_json(path, found)
    return found


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
