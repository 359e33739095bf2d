"""The nearest of samples: guessed distances that leave records out."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.neighbours import sampled
from mechanisms.neighbours.sampled import SampledSearch, find_sampled, merge_nearest
from mechanisms.noise.sampling import RecordSampler
from mechanisms.validation import check_features


@pytest.mark.audit
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
    assert not odd.queries.flags.aligned
    assert not odd.numbers.flags.aligned
    expected, multiplied, multiply = find_sampled(records, np.arange(3000), 0, search), [], np.matmul
    monkeypatch.setattr(np, "matmul", lambda *two, out: multiplied.append(two) or multiply(*two, out=out))
    found = find_sampled(records, np.arange(3000), 0, odd)
    assert multiplied
    assert all(each.flags.aligned for two in multiplied for each in two)
    assert np.array_equal(found.index, expected.index)
    assert check_features(at_an_odd_address(records)).flags.aligned


@pytest.mark.each_run(4)
@pytest.mark.parametrize("width", [1, 64])
@pytest.mark.parametrize("scale", [1e-25, 1e-22, 1.0, 1e15])
def test_the_sieve_leaves_out_nothing_within_the_distance(width, scale):
    """Held against rationals: a record within D is kept, where D is just its distance, and none that is well beyond."""
    rng = np.random.default_rng(width)
    records, queries = (scale * np.clip(rng.standard_normal((n, width)) / 4, -1, 1) for n in (90, 7))
    records[::3] = queries[rng.integers(0, 7, 30)] + scale * 1e-4 * rng.standard_normal((30, width))
    records, queries = records.astype(np.float32), queries.astype(np.float32)
    exact = [[exact_distance(row, query) for row in records] for query in queries]
    sieve = sampled._Sieve(queries, records)
    for rank in range(0, 90, 4):
        far = np.array([next_above(sorted(gaps)[rank]) for gaps in exact])
        kept = set(zip(*(each.tolist() for each in sieve.keep(0, far)[:2]), strict=True))
        for q, gaps in enumerate(exact):
            assert {(q, row) for row, gap in enumerate(gaps) if gap <= far[q]} <= kept
    whose, row, stop = sieve.keep(0, np.full(7, np.inf))
    assert len(set(zip(whose.tolist(), row.tolist(), strict=True))) == len(row) == 7 * 90
    assert stop == 90
    if scale >= 1e-6:
        near = [[float(gap) / scale**2 <= 0.5 + 1e-3 for gap in gaps] for gaps in exact]
        whose, row, _ = sieve.keep(0, np.full(7, 0.5 * scale**2))
        assert np.array(near)[whose, row].all()


def test_the_sieve_allows_for_the_rounding_of_long_sums():
    """Numbers of 20 bits, whose distances are whole numbers of 2^-40: exact in 64 bits, while the products are not."""
    rng, width = np.random.default_rng(0), 1000
    records, queries = (rng.integers(2**19, 2**20, (n, width)) for n in (90, 7))
    exact = np.square(records[None] - queries[:, None]).sum(axis=2)
    assert exact.max() < 2**53
    sieve = sampled._Sieve(*((each / 2**20).astype(np.float32) for each in (queries, records)))
    for rank in range(90):
        far = np.sort(exact, axis=1)[:, rank]
        whose, row, _ = sieve.keep(0, far / 2.0**40)
        kept = np.zeros(exact.shape, bool)
        kept[whose, row] = True
        assert kept[exact <= far[:, None]].all()


def exact_distance(row, query):
    return sum((Fraction(float(x)) - Fraction(float(q))) ** 2 for x, q in zip(row, query, strict=True))


def next_above(value):
    """The least float that is not below a rational."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
