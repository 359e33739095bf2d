"""Kernels and buckets of a record do not depend on other records, in any bit."""

import numpy as np
import pytest

from mechanisms.neighbours.hashing import Hashing
from mechanisms.neighbours.kernels import Cosine, RadialBasis
from mechanisms.neighbours.records import Records
from mechanisms.noise.source import as_randomness

X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
ROWS = Cosine(0.0).prepare(X)


@pytest.mark.parametrize("kernel", [Cosine(0.2), RadialBasis(0.2, 4.0), RadialBasis(0.0, 1.0), Cosine(0.0)])
def test_a_kernel_depends_on_its_record_alone(kernel):
    """The same bits whichever other records there are, and no record is missed."""
    rng = np.random.default_rng(5)
    rows, query = rng.normal(size=(500, 67)).astype(np.float32), rng.normal(size=67).astype(np.float32)
    if isinstance(kernel, RadialBasis):
        rows, query = rows / 3, query / 3
    rows, query = kernel.prepare(rows), kernel.prepare(query[None])[0]
    everyone = kernel.values(rows, np.arange(500), query)
    exact = [float(np.dot(row.astype(float), query.astype(float))) for row in rows]
    if isinstance(kernel, Cosine):
        assert everyone == pytest.approx(exact, abs=1e-14)
    for size in (1, 2, 17, 333):
        keep = np.sort(rng.choice(500, size, replace=False))
        records = Records(kernel, np.ascontiguousarray(rows[keep]))
        ((_, products),) = records.batches(query[None])
        slots, values = records.select(query, records.find_near(query, products))
        assert slots.tolist() == np.flatnonzero(everyone[keep] >= kernel.threshold).tolist()
        assert values.tolist() == everyone[keep][slots].tolist()


def test_candidates_are_those_that_share_a_bucket():
    hashing = Hashing(4, 3, 6, as_randomness(1))
    hashing.insert(np.arange(300), ROWS)
    planes = hashing.hyperplanes.astype(float)
    sides = (ROWS.astype(float) @ planes.T >= 0).reshape(300, 4, 3)
    for query in ROWS[:20]:
        asked = (query.astype(float) @ planes.T >= 0).reshape(4, 3)
        expected = np.flatnonzero((sides == asked).all(axis=2).any(axis=1))
        assert hashing.candidates(hashing.codes(query[None])[0]).tolist() == expected.tolist()


def test_codes_depend_on_the_record_alone():
    hashing = Hashing(20, 12, 6, as_randomness(1))
    together = hashing.codes(ROWS)
    assert all(np.array_equal(hashing.codes(ROWS[i : i + 1])[0], together[i]) for i in range(0, 300, 7))
    flat = np.zeros((3, 6), np.float32)
    assert (hashing.codes(flat) == 2**12 - 1).all(), "on all hyperplanes: exactly on their upper side"


@pytest.mark.parametrize("bits", [1, 8, 9, 16, 17, 32])
def test_codes_of_any_width_fit(bits):
    hashing = Hashing(3, bits, 6, as_randomness(2))
    hashing.insert(np.arange(300), ROWS)
    for i in (0, 299):
        assert i in hashing.candidates(hashing.codes(ROWS[i : i + 1])[0])
