"""``--store``: opened without creating it, and what must stay the same while digests identify records."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import accountant as ac
from mechanisms.cli.results_file import OptionError

if TYPE_CHECKING:
    from mechanisms.budgets.rehearsal import RehearsedStore
    from mechanisms.datasets import Dataset

__all__ = [
    "check_store",
    "hold_digests",
    "open_existing",
    "parse_store",
    "refuse_moving_digests",
    "rehearse_store",
    "store_exists",
]

DIGESTS = "digests of records"
"""Name of the run without queries whose header says what the digests are made of."""


def store_exists(where: str) -> bool:
    """Whether there is a store at a path or on a server; nothing is created there."""
    from mechanisms.budgets.backends import has_store

    return has_store(where)


def parse_store(text: str) -> str:
    """Where a store is, for argparse; it is looked at later."""
    from mechanisms.budgets.backends import ADDRESSES

    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: {ADDRESSES}")
    return text


def check_store(where: str | None) -> None:
    """Refuse a new store in a place where no file can be made, before anything is read.

    Raises
    ------
    OptionError
    """
    from mechanisms.budgets.backends import locate_store

    place = None if where is None else locate_store(where)
    if isinstance(place, Path) and not store_exists(str(place)):
        ac.files.check_output(place, name="--store", refuse=OptionError)


def open_existing(where: str | None) -> Any:
    """The store, or a context manager of None where there is none, so that nothing is created before all is checked."""
    if where is None or not store_exists(where):
        return nullcontext()
    from mechanisms.budgets.store import open_store

    return open_store(where)


def refuse_moving_digests(options: argparse.Namespace) -> None:
    """Refuse digests of features that depend on the public points: others would give every record a new budget.

    Raises
    ------
    OptionError
    """
    for name, given in (("--standardize", options.standardize), ("--impute-public", options.impute_public)):
        if options.store is not None and options.ids == "digest" and given:
            reason = "other public points would change the digest of a record, which would then get a new budget"
            raise OptionError(f"{name} was given with --ids digest: {reason}; accepted: --ids NAME, a column")


def rehearse_store(
    options: argparse.Namespace, store: Any, private: Dataset, names: tuple[str, ...] | None
) -> RehearsedStore | None:
    """A store for a rehearsal, if one is wanted; refuses what `hold_digests` refuses, and leaves `store` as it is."""
    from mechanisms.budgets.rehearsal import RehearsedStore, undo

    if options.store is None:
        return None
    if store is not None:
        with undo(store):
            hold_digests(store, options, private, names)
    return RehearsedStore(store)


def hold_digests(store: Any, options: argparse.Namespace, private: Dataset, names: tuple[str, ...] | None) -> None:
    """Let a store take digests of one choice of columns and of one numbering of labels only; the first call decides.

    Raises
    ------
    OptionError
        Under the present choice the records would get new digests, and new budgets.
    """
    if store is None or options.ids != "digest":
        return
    from mechanisms.budgets.store import RunDiffers

    width = private.features.shape[1]
    header = {"features": private.columns, "width": width, "label": options.label, "classes": names}
    try:
        store.begin(DIGESTS, header, 0)
    except RunDiffers as error:
        accepted = "the same features, label and classes, or another store; with --ids NAME they may change"
        raise OptionError(f"--ids digest: {str(error).partition(';')[0]}; accepted: {accepted}") from None
