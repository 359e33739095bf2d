"""Objects that remember what they spent: one process, one thread at a time, no copies."""

import copy
import os
import pickle
import threading
import time

import pytest

from mechanisms.exclusive import Exclusive, UsageError, exclusive


class Counter(Exclusive):
    def __init__(self):
        self.spent = 0

    @exclusive
    def spend(self, then=lambda: None):
        before = self.spent
        time.sleep(1e-4)
        self.spent = before + 1
        then()
        return self.spent


def test_threads_take_turns():
    counter = Counter()
    threads = [threading.Thread(target=lambda: [counter.spend() for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.spent == 400


def test_a_forked_child_is_refused():
    counter = Counter()
    counter.spend()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            counter.spend()
            os.write(writer, b"spent")
        except UsageError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert str(os.getpid()).encode() in os.read(reader, 1000)
    assert counter.spend() == 2


def test_a_method_cannot_be_called_from_within_itself():
    counter = Counter()
    with pytest.raises(UsageError, match="within"):
        counter.spend(counter.spend)
    assert counter.spend() == 2


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_was_used_is_not_copied(make):
    counter = Counter()
    make(counter)
    counter.spend()
    with pytest.raises(UsageError, match="copy"):
        make(counter)
