"""Numbers of a plan that can be changed: NAME.KEY, and NAME.of.KEY where a release has a table of its own, ``of``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accountant.events.parameters import parameters_of
from accountant.plan_lines import NOISE_MULTIPLIER, STAND_INS, SYNONYMS, kind_of, unit_of_noise

__all__ = ["INNER", "inner_table", "is_whole", "numbers_in", "plain_key", "set_number", "state_the_same"]

INNER = "of"
"""The key of a table within a release: the event that is sampled, allocated or tried."""


def inner_table(line: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], str]:
    """The table in which a key such as "of.sigma" stands, and the key's last part."""
    head, dot, rest = key.partition(".")
    return inner_table(line[head], rest) if dot else (line, key)


def numbers_in(where: str, line: Mapping[str, Any], written: Mapping[str, Any]) -> list[str]:
    """Keys of a release's numbers; of those that stand for others, the ones that are in `written`."""
    return _numbers(where, line, written, ("count", "sampling_rate"))


def _numbers(where: str, line: Mapping[str, Any], written: Mapping[str, Any], usual: tuple[str, ...]) -> list[str]:
    own = [key for key in STAND_INS if key in written]
    parameters = parameters_of(kind_of(where, line["event"]))
    keys = [*own, *usual, *(parameter.name for parameter in parameters if parameter.number)]
    within = line.get(INNER)
    if isinstance(within, Mapping):
        keys += [f"{INNER}.{key}" for key in _numbers(where, within, within, ("sampling_rate",))]
    return list(dict.fromkeys(keys))


def plain_key(where: str, line: Mapping[str, Any], key: str, numbers: list[str]) -> str:
    """`key`, or that of sigma where a noise multiplier is the same number and the plan states none."""
    path, dot, last = key.rpartition(".")
    sigma = f"{path}{dot}sigma"
    if last != NOISE_MULTIPLIER or key in numbers or sigma not in numbers:
        return key
    table, _ = inner_table(line, sigma)
    unit = unit_of_noise(where, table)
    return sigma if unit is not None and table.get(unit, 1.0) == 1.0 else key


def is_whole(where: str, line: Mapping[str, Any], key: str) -> bool:
    """Whether a key of a release takes whole numbers only."""
    table, last = inner_table(line, key)
    kind = kind_of(where, table["event"])
    return last in ("count", "records", "batch") or any(p.name == last and p.whole for p in parameters_of(kind))


def set_number(line: Mapping[str, Any], key: str, value: object, plain: Mapping[str, Any]) -> dict[str, Any]:
    """A release with another value; keys that state the same are left out.

    Where epochs are among these, the count is what they came to in `plain`.
    """
    head, dot, rest = key.partition(".")
    if dot:
        return {**line, head: set_number(line[head], rest, value, plain[head])}
    kept = {name: each for name, each in line.items() if name not in SYNONYMS.get(key, ())}
    if "epochs" in line and "epochs" not in kept:
        kept["count"] = plain["count"]
    return {**kept, key: value}


def state_the_same(first: tuple[int, str], second: tuple[int, str]) -> bool:
    """Whether two places in a plan, each a release and a key, cannot have values of their own."""
    (place, key), (other, beside) = first, second
    path, _, last = key.rpartition(".")
    within, _, least = beside.rpartition(".")
    same = last == least or least in SYNONYMS.get(last, ()) or last in SYNONYMS.get(least, ())
    return place == other and path == within and same
