"""Child processes that tests start, read from and kill."""

import multiprocessing
import os
from contextlib import suppress

from mechanisms.budgets import backends

KILLS = int(os.environ.get("BUDGET_KILLS", 20))

# children are forked from a server process with one thread, and need not repeat its imports; a process has only one
# such server, so that all tests share this list
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "pytest",
        "tests.mechanisms.budgets.test_individual_store",
        "tests.mechanisms.budgets.test_journal",
        "tests.mechanisms.answered_once",
        "tests.mechanisms.shards.test_kills",
        "tests.mechanisms.shards.test_paying",
        "psycopg",
        "sqlalchemy.dialects.postgresql.psycopg",
    ]
)


WAIT = 300
"""Seconds that stores of tests wait for other processes: on a slow machine none gives up before its turn."""


def wait_long(child, *arguments):
    backends.STORE_WAIT = WAIT
    child(*arguments)


def start(child, *arguments):
    reader, writer = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=wait_long, args=(child, *arguments, writer))
    process.start()
    writer.close()
    return process, reader


def end_of(child, *arguments):
    """The exit code of a child process that says nothing."""
    process, reader = start(child, *arguments)
    reader.close()
    process.join(300)
    return process.exitcode


def listen(reader, told):
    """All output that can be read now."""
    with suppress(EOFError):
        while reader.poll():
            told.append(reader.recv())
