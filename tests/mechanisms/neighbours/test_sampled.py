"""The nearest of samples: guessed distances that leave records out."""

from dataclasses import replace

import numpy as np
import pytest

from mechanisms.neighbours import sampled
from mechanisms.neighbours.sampled import SampledSearch, find_sampled, merge_nearest
from mechanisms.noise.sampling import RecordSampler
from mechanisms.validation import check_features


@pytest.mark.parametrize("misleading", [False, True])
def test_guessed_distances_change_nothing(misleading, monkeypatch):
    """Where the guess is too near, as the records that it looks at are not like the others, all is searched again."""
    rng, n = np.random.default_rng(3), sampled.FIRST * sampled.PROBE + 17
    records = rng.standard_normal((n, 6)).astype(np.float32)
    queries = rng.standard_normal((5, 6)).astype(np.float32)
    if misleading:
        step = n // sampled.PROBE
        records += 30.0
        records[::step] = queries[np.arange(len(records[::step])) % 4] + 0.01
    search = SampledSearch(queries, np.arange(5), RecordSampler(bytes(range(32))), [(0, 0.1), (1, 0.02)], 40)
    searches, look = [], sampled._search
    monkeypatch.setattr(sampled, "_search", lambda *all_of: searches.append(len(all_of[3].queries)) or look(*all_of))
    whole = find_sampled(records, np.arange(n), 0, search)
    assert (searches != [5]) == misleading
    cuts = np.array_split(np.arange(n), 7)
    parts = merge_nearest([find_sampled(records[cut], cut, int(cut[0]), search) for cut in cuts])
    for query in range(5):
        for sample in range(2):
            assert np.array_equal(whole.of(query, sample), parts.of(query, sample))
    # with what is known of other parts, less is looked at, and what is needed is found
    half = n // 2
    known = find_sampled(records[:half], np.arange(half), 0, search)
    both = find_sampled(records[half:], np.arange(half, n), half, search, known)
    parts = merge_nearest([both.among(half, n - half), both.among(0, half), known.among(half, n)])
    for query in range(5):
        for sample in range(2):
            assert np.array_equal(whole.of(query, sample), both.of(query, sample))
            assert np.array_equal(whole.of(query, sample), parts.of(query, sample))


def at_an_odd_address(values):
    """The same values, where the processor's loads are not aligned, as a network may leave them."""
    room = np.empty(values.nbytes + 1, np.uint8)
    odd = room[1:].view(values.dtype).reshape(values.shape)
    odd[:] = values
    return odd


def test_queries_that_are_not_aligned_are_copied_once(monkeypatch):
    rng = np.random.default_rng(5)
    records, queries = (rng.standard_normal((n, 6)).astype(np.float32) for n in (3000, 5))
    search = SampledSearch(queries, np.arange(5), RecordSampler(bytes(32)), [(0, 0.1), (1, 0.02)], 40)
    odd = replace(search, queries=at_an_odd_address(queries), numbers=at_an_odd_address(search.numbers))
    assert not (odd.queries.flags.aligned or odd.numbers.flags.aligned)
    expected, multiplied, multiply = find_sampled(records, np.arange(3000), 0, search), [], np.matmul
    monkeypatch.setattr(np, "matmul", lambda *two, out: multiplied.append(two) or multiply(*two, out=out))
    found = find_sampled(records, np.arange(3000), 0, odd)
    assert multiplied
    assert all(each.flags.aligned for two in multiplied for each in two)
    assert np.array_equal(found.index, expected.index)
    assert check_features(at_an_odd_address(records)).flags.aligned
