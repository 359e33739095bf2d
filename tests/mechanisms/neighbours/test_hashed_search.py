"""Lists of buckets find what a scan of all codes finds, and coarse rows leave out nothing that may be similar."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
import mechanisms as mx
from mechanisms.neighbours import buckets, hashing
from mechanisms.neighbours.buckets import Buckets
from mechanisms.neighbours.coarse import CoarseRows
from mechanisms.neighbours.hashing import Hashing
from mechanisms.neighbours.kernels import Cosine, RadialBasis
from mechanisms.neighbours.records import Records
from mechanisms.noise.source import as_randomness


def scan(codes, wanted):
    """By definition: slots of which some table's code is as wanted."""
    return np.flatnonzero((codes == wanted).any(axis=1)).tolist()


@pytest.mark.audit
@settings(max_examples=60, deadline=None)
@given(data=st.data(), fresh=st.sampled_from([0, 3, 1000]), sparse=st.sampled_from([1, 64]))
def test_lists_find_what_a_scan_finds(data, fresh, sparse):
    """However slots come and get other records, whether they are in the lists or not yet."""
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    tables, most = int(rng.integers(1, 6)), int(rng.choice([2, 7, 300, 70000]))
    word = np.uint8 if most <= 256 else np.uint16 if most <= 65536 else np.uint32
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "FRESH", fresh)
        patch.setattr(buckets, "SPARSE", sparse)
        found, known = Buckets(tables, word), np.empty((0, tables), np.int64)
        for _ in range(data.draw(st.integers(1, 6))):
            size, new = len(known), int(rng.integers(0, 40))
            again = rng.choice(size, int(rng.integers(0, size + 1)), replace=False)
            slots = rng.permutation(np.concatenate([again, np.arange(size, size + new)])).astype(np.int64)
            codes = rng.integers(0, most, (len(slots), tables))
            known = np.concatenate([known, np.zeros((new, tables), np.int64)])
            known[slots] = codes
            found.insert(slots, codes)
            for wanted in (
                *rng.integers(0, most, (3, tables)),
                *known[rng.integers(0, max(len(known), 1), 2)[: len(known)]],
            ):
                assert found.find(wanted).tolist() == scan(known, wanted)


def test_a_query_does_not_look_at_all_codes():
    """The lists are used: what is not in them is found among the fresh ones alone."""
    found = Buckets(2, np.uint8)
    codes = np.random.default_rng(0).integers(0, 256, (4000, 2))
    found.insert(np.arange(4000), codes)
    assert found.find(codes[7]).tolist() == scan(codes, codes[7])
    found._codes[:] = 0  # codes are not read any more
    assert found.find(codes[7]).tolist() == scan(codes, codes[7])


def test_too_many_slots_are_refused():
    with pytest.raises(ac.ParameterError, match="accepted: at most 2147483647"):
        Buckets(1, np.uint8).reserve(2**31)


# --- coarse rows -----------------------------------------------------------------------------------------


def exact_product(row, query):
    return sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, query, strict=True))


@pytest.mark.audit
@settings(max_examples=80, deadline=None)
@given(
    width=st.integers(1, 40),
    sizes=st.tuples(*[st.sampled_from([1e-42, 1e-20, 1e-3, 1.0, 1e5, 1e30])] * 2),
    tail=st.sampled_from([0.5, 2.0, 9.0]),
    seed=st.integers(0, 10**6),
)
def test_no_product_is_missed(width, sizes, tail, seed):
    """A row stays if its exact product, in rationals, is as large as demanded."""
    rng = np.random.default_rng(seed)
    rows, queries = (
        (size * np.sign(rng.normal(size=shape)) * np.abs(rng.normal(size=shape)) ** tail).astype(np.float32)
        for size, shape in zip(sizes, ((12, width), (3, width)), strict=True)
    )
    rows[0], rows[1, width // 2 :] = 0, 0
    coarse = CoarseRows(width)
    order = rng.permutation(12)
    coarse.insert(order[:5], rows[order[:5]])
    coarse.insert(order[5:], rows[order[5:]])
    slots = [np.sort(rng.choice(12, 9, replace=False)) for _ in queries]
    products = [[exact_product(rows[slot], query) for slot in some] for query, some in zip(queries, slots, strict=True)]
    # the largest double that is not above a product demands that the row stays
    bars = [np.array([np.nextafter(float(product), -np.inf) for product in some]) for some in products]
    kept = coarse.reach(queries, slots, bars)
    assert [each.tolist() for each in kept] == [each.tolist() for each in slots]
    lengths = np.linalg.norm(rows.astype(float), axis=1)
    bars = [
        np.array([float(product) for product in some]) + 0.05 * lengths[which] * np.linalg.norm(query.astype(float))
        for some, which, query in zip(products, slots, queries, strict=True)
    ]
    if tail == 0.5:  # bounds are tight, too: what is less by a twentieth of the lengths goes
        for each, which in zip(coarse.reach(queries, slots, bars), slots, strict=True):
            assert not (lengths[each] > 0).any(), (each, which)


@pytest.mark.audit
def test_wide_rows_are_summed_without_overflow():
    width = 200_000
    rows = np.ones((1, width), np.float32)
    coarse = CoarseRows(width)
    coarse.insert(np.array([0]), rows)
    assert [each.tolist() for each in coarse.reach(rows, [np.array([0])], [np.array([float(width)])])] == [[0]]
    assert [each.tolist() for each in coarse.reach(rows, [np.array([0])], [np.array([1.001 * width])])] == [[]]
    with pytest.raises(ac.ParameterError, match="16909321 features with hashing"):
        CoarseRows(16_909_321)


# --- whole searches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Cosine(0.4), Cosine(0.0), RadialBasis(0.3, 6.0), RadialBasis(0.0, 6.0)])
@pytest.mark.parametrize("most", [1, 200, 1 << 19])
def test_selected_are_the_candidates_that_reach_the_threshold(kernel, most, monkeypatch):
    """In batches of any size: what is selected of the candidates is what is selected of those that are near."""
    monkeypatch.setattr(hashing, "MOST_CANDIDATES", most)
    rng = np.random.default_rng(1)
    rows = kernel.prepare(rng.normal(size=(900, 40)).astype(np.float32) + 0.5)
    points = kernel.prepare(rng.normal(size=(30, 40)).astype(np.float32) + 0.5)
    records, index = Records(kernel, rows), Hashing(5, 3, 40, as_randomness(1))
    index.insert(np.arange(900), rows)
    codes, left_out, seen = index.codes(points), 0, 0
    for number, (query, near) in enumerate(index.near(records, points)):
        candidates = index.candidates(codes[number])
        expected, kernels = records.select(query, candidates)
        slots, values = records.select(query, near)
        assert query.tolist() == points[number].tolist()
        assert set(near) <= set(candidates)
        assert slots.tolist() == expected.tolist()
        assert values.tolist() == kernels.tolist()
        left_out, seen = left_out + len(candidates) - len(near), number + 1
    assert seen == 30
    assert left_out > 0 or kernel.threshold == 0.0


@pytest.mark.parametrize("kernel", ["cosine", "rbf"])
def test_answers_and_charges_are_those_of_a_scan(kernel, monkeypatch):
    """With records that come and go, the interaction is bit by bit that of codes compared one by one."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(700, 12)).astype(np.float32) / 2 + 0.2, rng.integers(0, 3, 700)
    queries = rng.normal(size=(60, 12)).astype(np.float32) / 2 + 0.2

    def interact():
        model = mx.IndividualKNN(0.4, 0.4, 6.0, 0.5, kernel, min_count=5.0, n_classes=3, hashing=(4, 4), rng=7)
        model.fit(X[:400], Y[:400], range(400))
        answers = [model.predict(queries[:20]).tolist()]
        model.remove(range(0, 300, 3)).add(range(400, 700), X[400:], Y[400:])
        answers += [model.predict(queries[i : i + 1]).tolist() for i in range(20, 40)]
        answers.append(model.predict(queries[40:]).tolist())
        return answers, dict(zip(model.ids_, model.budgets_.tolist(), strict=True))

    fast = interact()

    def scanned(self, records, points):
        for query, codes in zip(points, self.codes(points), strict=True):
            table = self._buckets._codes[:, : self._buckets._size].T
            yield query, np.flatnonzero((table == codes).any(axis=1))

    monkeypatch.setattr(Hashing, "near", scanned)
    assert interact() == fast
