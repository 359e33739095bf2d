"""``accountant completion SHELL``: what a shell must read so that it completes both commands."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from accountant.errors import AccountantError, MissingExtra
from accountant.plan import EVENTS, builtin_plans, load_plan
from accountant.plan_numbers import numbers_in

__all__ = ["SHELLS", "add_completion", "complete_event", "complete_number", "complete_plan", "complete_with"]

SHELLS = {
    "bash": 'eval "$(accountant completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(accountant completion zsh)" in ~/.zshrc, after compinit',
    "fish": "accountant completion fish | source in ~/.config/fish/config.fish",
}
"""Shells, with the line that makes them complete."""


def add_completion(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Print what a shell reads to complete the commands accountant and mechanisms."
    ways = "; ".join(f"{shell}: {way}" for shell, way in SHELLS.items())
    parser = commands.add_parser("completion", help=text, description=f"{text} {ways}.")
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SHELLS), help="the shell")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise MissingExtra("completion needs argcomplete: pip install 'knn-accountant[completion]'") from None
    print(shellcode(["accountant", "mechanisms"], shell=options.shell))
    return 0


def complete_with(action: argparse.Action, complete: Callable[..., Iterable[str]]) -> None:
    """Let shells ask `complete` for the values of an argument."""
    action.completer = complete  # type: ignore[attr-defined]


def complete_plan(prefix: str, **_: Any) -> list[str]:
    """Names of built-in plans, and files that may hold one."""
    folder = prefix.rpartition(os.sep)[0]
    found = [name for name in builtin_plans() if name.startswith(prefix)]
    with suppress(OSError):
        for entry in os.scandir(folder or ("/" if prefix.startswith(os.sep) else ".")):
            path = os.path.join(folder, entry.name) if folder or prefix.startswith(os.sep) else entry.name
            if path.startswith(prefix) and (entry.is_dir() or entry.name.endswith(".toml")):
                found.append(path + os.sep * entry.is_dir())
    return found


def complete_number(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Numbers in the plan that was typed before, as NAME.KEY; nothing is imported for that."""
    try:
        plan = load_plan(parsed_args.plan, own=False)
    except (AccountantError, AttributeError, TypeError):
        return []
    every = [
        f"{release.name}.{key}"
        for release, line, written in zip(plan.releases, plan.tables["release"], plan.written["release"], strict=True)
        for key in numbers_in(plan.name, line, written)
    ]
    return [name for name in every if name.startswith(prefix)]


def complete_event(prefix: str, **_: Any) -> list[str]:
    """Names of events."""
    return [name for name in EVENTS if name.startswith(prefix)]
