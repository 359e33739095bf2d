"""Identifiers and remaining budgets of the private records of Ind-KNN."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.budgets.backends import RunDiffers
from mechanisms.budgets.budget_store import BudgetStore
from mechanisms.budgets.identifiers import check_ids, digest_ids, digest_in, number_of_equal
from mechanisms.neighbours.records import grow
from mechanisms.noise.source import Randomness, as_randomness

__all__ = ["KnownRecords", "RecordBudgets", "check_source"]

DIGESTS = "columns and classes of digests"
"""Name of the run without queries whose header says what the digests of a store are made of."""


class KnownRecords(NamedTuple):
    """Records by name, with their positions in the store and the units that they have spent."""

    names: list[str]
    positions: Integers
    spent: Integers


class RecordBudgets:
    """Identifiers of the records in each slot, and what they have spent: in this fit, in earlier ones, or in a store.

    Parameters
    ----------
    filter : accountant.IndividualFilter
        Holds the budgets; its rows are slots.
    store : BudgetStore or None
    ids : object
        As given to `fit`: identifiers, "digest" or None.
    earlier : RecordBudgets or None
        Those of the previous `fit`, if any.

    Attributes
    ----------
    kind : {"given", "digest"}
        Whether identifiers were given or are digests of the records.
    slots : dict
        Slot of every present record, by its name.
    released : bool
        Whether any query has been answered, under these budgets or earlier ones.
    numbered : bool
        Whether records that have spent are known by numbers, which no identifiers can be matched with.

    Raises
    ------
    accountant.ParameterError
        It could not be known what the records have spent before.
    """

    def __init__(
        self, filter: ac.IndividualFilter, store: BudgetStore | None, ids: object, earlier: RecordBudgets | None
    ) -> None:
        self.filter, self.store, self.kind = filter, store, _kind(ids)
        if store is not None and ids is None:
            raise ac.ParameterError(
                "ids = None with a store, but row numbers do not identify records in the next run; accepted: an "
                'identifier for each record, or "digest"'
            )
        self.slots: dict[str, int] = {}
        self._positions = np.empty(0, np.int64)
        self._gone: dict[str, int] = {}
        self._key = b""
        self._known: dict[str, int] | None = None
        self._made_of: dict[str, Any] | None = None
        self.released: bool = earlier is not None and earlier.released
        self.numbered: bool = ids is None
        if earlier is None or not earlier.released:
            return
        self.numbered = earlier.numbered
        same = filter.budget == earlier.filter.budget and store is earlier.store and self.kind == earlier.kind
        if ids is None or not same:
            raise ac.ParameterError(
                f"fit again after answers, with budget = {filter.budget:g} and ids = {ac.shorten(ids)}; accepted: "
                f"identifiers, {earlier.kind} as before, the same store and budget = {earlier.filter.budget:g}, or a "
                "new object for other people"
            )
        self._made_of = earlier._made_of
        if store is None:
            self._gone, self._key = earlier._all_spent(), earlier._key
            self._known = self._gone if self.numbered else None

    def names(self, ids: object, features: Singles, labels: NDArray[np.int64]) -> list[str]:
        """Names of new records; without identifiers, the records of the first `fit` are numbered.

        Raises
        ------
        accountant.ParameterError
            Identifiers are not valid, or not of this kind.
        """
        if _kind(ids) != self.kind:
            raise ac.ParameterError(f"ids = {ac.shorten(ids)}; accepted: {_ACCEPTED[self.kind]}, as at fit")
        if ids is None and (self.slots or self.released or self.store is not None):  # numbers would repeat
            raise ac.ParameterError('ids = None; accepted: an identifier for each record, or "digest" as at fit')
        if self.kind == "given":
            names = check_ids(range(len(features)) if ids is None else ids, len(features))
            for name in names:
                if self._known is not None and name not in self._known:
                    raise ac.ParameterError(
                        f"ids holds {ac.shorten(name)}, but records were numbered when they were charged; accepted: "
                        "these numbers, or a new object for other people"
                    )
                if name in self.slots:
                    accepted = "new ones, or removed ones"
                    raise ac.ParameterError(f"ids holds {ac.shorten(name)}, which is there; accepted: {accepted}")
            return names
        store: Any = self.store
        if store is not None and not hasattr(store, "key"):
            raise ac.ParameterError('ids = "digest"; accepted: identifiers, as the store keeps no key')
        if not self._key:
            self._key = secrets.token_bytes(32) if store is None else store.key()
        return digest_ids(self._key, features, labels, self.slots)

    def settle(self, settings: dict[str, Any]) -> None:
        """Fix the settings that all processes with this store must share; refused if the store has others."""
        if self.store is not None:
            numbers = {name: float(each) for name, each in settings.items() if not isinstance(each, str)}
            self.store.settle({**settings, **numbers, "units": self.filter.UNITS, "identifiers": self.kind})

    def hold_digests(self, made_of: dict[str, Any]) -> None:
        """Fix what digests are made of, here and in the store: others would give every record a new budget.

        Raises
        ------
        accountant.ParameterError
            Other columns, or classes, were decided on before; nothing was changed.
        """
        if self.kind != "digest":
            return
        accepted = 'accepted with ids = "digest": the same columns in the same order, and the same classes'
        differ = [name for name in made_of if self._made_of is not None and self._made_of[name] != made_of[name]]
        if differ:
            raise ac.ParameterError(f"fit again after answers, with other {', '.join(differ)}; {accepted}")
        begin = getattr(self.store, "begin", None)
        if begin is not None:
            try:
                begin(DIGESTS, made_of, 0)
            except RunDiffers as error:
                raise ac.ParameterError(f"{str(error).partition(';')[0]}; {accepted}, or another store") from None
        self._made_of = made_of

    def find(self, names: list[str]) -> KnownRecords:
        """Positions of records in the store, which adds new ones, and the units that they have spent before."""
        if self.store is None:
            spent = np.array([self._gone.get(name, 0) for name in names], np.int64)
            return KnownRecords(names, np.zeros(len(names), np.int64), spent)
        positions = self.store.positions(names)
        return KnownRecords(names, positions, np.minimum(self.store.spent(positions), self.filter.UNITS))

    def make_room(self, slots: Integers) -> None:
        """Reserve these slots for new records, which cannot spend anything before `enter`."""
        self.filter.admit(slots, self.filter.UNITS)
        self._positions = grow(self._positions, len(self.filter.left))

    def enter(self, slots: Integers, known: KnownRecords) -> None:
        """Let the records in these slots spend what they have left."""
        self._positions[slots] = known.positions
        self._known = None  # whoever is added later is another record
        self.slots.update(zip(known.names, slots.tolist(), strict=True))
        self.filter.admit(slots, known.spent)

    def leave(self, names: list[str]) -> Integers:
        """Remove records and return their slots; what they have spent is remembered.

        Of records with equal digests the last ones go, so that those that stay are those that are named in another fit.

        Raises
        ------
        accountant.ParameterError
            One is not present; none is removed.
        """
        for name in names:
            if name not in self.slots:
                raise ac.ParameterError(f"ids holds {ac.shorten(name)}, which is not there; accepted: those in ids_")
        if self.kind == "digest":
            names = self._last_of_equal(names)
        slots = np.array([self.slots[name] for name in names], np.int64)
        self._gone.update(zip(names, self._spent(slots), strict=True))
        self.filter.retire(slots)
        for name in names:
            del self.slots[name]
        return slots

    def _last_of_equal(self, names: list[str]) -> list[str]:
        """As many records of each digest, those with the largest numbers."""
        wanted, equal = Counter(map(digest_in, names)), dict[str, list[str]]()
        for name in self.slots:
            if (made := digest_in(name)) in wanted:
                equal.setdefault(made, []).append(name)
        return [name for made, times in wanted.items() for name in sorted(equal[made], key=number_of_equal)[-times:]]

    def ids(self) -> list[str]:
        """Identifiers of the present records."""
        return list(self.slots)

    def left(self) -> Integers:
        """What they have left, in the same order."""
        return self.filter.left[list(self.slots.values())]

    def charge(self, slots: Integers, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Charge records in the store; True for those that could pay."""
        if self.store is None or not len(slots):
            return np.ones(len(slots), bool)
        granted = self.store.charge(self._positions[slots], units, self.filter.UNITS)
        if not granted.all():  # another process has charged them since they were read
            self._read_again(slots[~granted])
        return granted

    def read_again(self) -> None:
        """Read all budgets from the store again."""
        self._read_again(np.array(list(self.slots.values()), np.int64))

    def _read_again(self, slots: Integers) -> None:
        if self.store is not None:
            spent = self.store.spent(self._positions[slots])
            self.filter.admit(slots, np.minimum(spent, self.filter.UNITS))

    def _spent(self, slots: Integers) -> list[int]:
        spent: list[int] = (self.filter.UNITS - self.filter.left[slots]).tolist()
        return spent

    def _all_spent(self) -> dict[str, int]:
        here = self._spent(np.array(list(self.slots.values()), np.int64))
        return {**self._gone, **dict(zip(self.slots, here, strict=True))}


def check_source(rng: object, store: BudgetStore | None) -> Randomness:
    """The source of noise; with a store it must not be repeatable.

    Raises
    ------
    accountant.ParameterError
        `rng` is not valid, or is a seed or generator with a store.
    """
    source = as_randomness(rng)
    if store is not None and source.repeatable:
        raise ac.ParameterError(
            f"rng = {ac.shorten(rng)} with a store, where it would repeat its noise after a restart; accepted: None, "
            "for system entropy"
        )
    return source


_ACCEPTED = {"given": "identifiers that were given", "digest": '"digest"'}


def _kind(ids: object) -> str:
    return "digest" if isinstance(ids, str) and ids == "digest" else "given"
