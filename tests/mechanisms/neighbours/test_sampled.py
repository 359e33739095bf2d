"""The nearest of samples: guessed distances that leave records out."""

import numpy as np
import pytest

from mechanisms.neighbours import sampled
from mechanisms.neighbours.sampled import SampledSearch, find_sampled, merge_nearest
from mechanisms.noise.sampling import RecordSampler


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
