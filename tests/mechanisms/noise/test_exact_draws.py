"""Draws from words: exact at every boundary between words; tables against definitions in high precision."""

from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest

from mechanisms.noise.exact_draws import (
    DIGITS,
    DistributionTable,
    below,
    coins,
    logarithmic_series,
    poisson,
    scale_words,
)
from mechanisms.noise.source import System, as_randomness

TOP = 2**64 - 1


class Given:
    """A source whose words are given."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, size):
        drawn, self.left = self.left[:size], self.left[size:]
        assert len(drawn) == size, "more words drawn than expected"
        return np.array(drawn, dtype=np.uint64)


@pytest.mark.parametrize("source", [System(), as_randomness(3)], ids=["system", "seeded"])
def test_words_use_all_bits(source):
    words = source.words(10_000)
    assert words.dtype == np.uint64
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=int)
    assert np.abs(ones - 5000).max() < 8 * np.sqrt(2500)  # chance 1e-13 for one of 64 bits
    assert source.words(0).size == 0


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 5000, 2**31 + 11, 2**32 - 1])
def test_scaled_is_the_floor_of_the_exact_product(bound):
    rng = np.random.default_rng(bound)
    edges = [(cell * 2**64) // bound + shift for cell in (0, 1, bound // 2, bound - 1) for shift in (-1, 0, 1, 2)]
    words = [word for word in [*edges, 0, TOP] if 0 <= word <= TOP] + rng.integers(
        0, 2**64, 500, dtype=np.uint64
    ).tolist()
    expected = [word * bound >> 64 for word in words]
    assert scale_words(np.array(words, dtype=np.uint64), bound).tolist() == expected


def test_below_draws_again_what_would_make_it_uneven():
    # 2^64 mod 3 = 1: the word 0 alone has a low part below it
    assert below(Given(0, 5, 0, TOP), 2, 3).tolist() == [2, 0]
    assert below(Given(0, TOP), 2, 4).tolist() == [0, 3]
    drawn = below(as_randomness(1), 60_000, 6)
    assert np.abs(np.bincount(drawn.astype(int)) - 10_000).max() < 5 * 100


def test_coins_have_the_probability_of_the_threshold_exactly():
    threshold = (7 << 48) + 9
    quarters = sum(value << 16 * i for i, value in enumerate((6, 8, 7, 7)))
    assert coins(Given(quarters, 8 << 16, 9 << 16), 4, threshold).tolist() == [True, False, True, False]
    assert coins(Given(0), 1, 1 << 48).tolist() == [True]
    assert coins(Given(0, 0), 1, 1).tolist() == [True]
    assert coins(Given(0, 1 << 16), 1, 1).tolist() == [False]
    n, share = 400_000, 0.3
    heads = coins(as_randomness(2), n, int(share * 2**64)).sum()
    assert abs(heads - n * share) < 5 * np.sqrt(n * share * (1 - share))


def masses(table):
    """Probabilities of the first values of a table, exactly."""
    with mpmath.workdps(60):
        cumulative = [
            mpmath.mpf((int(h) << 64) + int(low)) / 2**128 for h, low in zip(table.high, table.low, strict=True)
        ]
        return [b - a for a, b in zip([mpmath.mpf(0), *cumulative], [*cumulative, mpmath.mpf(1)], strict=True)]


@pytest.mark.parametrize("mean", ["1e-30", "0.003", "1.7", "999.5"])
def test_poisson_table(mean):
    table = masses(DistributionTable.of(poisson(Decimal(mean)), 0))
    with mpmath.workdps(60):
        m = mpmath.mpf(mean)
        exact = [mpmath.exp(-m) * m**k / mpmath.factorial(k) for k in range(len(table))]
        assert sum(abs(a - b) for a, b in zip(table, exact, strict=True)) < len(table) * mpmath.mpf(2) ** -127


@pytest.mark.each_run(1)
@pytest.mark.parametrize("rate", [20.0, 1.0, 1 / 40, 1 / 100])
def test_logarithmic_series_table(rate):
    with localcontext() as context:
        context.prec = DIGITS
        table = masses(DistributionTable.of(logarithmic_series((-Decimal(rate)).exp()), 1))
    with mpmath.workdps(60):
        x = mpmath.exp(-mpmath.mpf(rate))
        exact = [-(x**j) / (j * mpmath.log1p(-x)) for j in range(1, len(table) + 1)]
        assert sum(abs(a - b) for a, b in zip(table, exact, strict=True)) < len(table) * mpmath.mpf(2) ** -127


def test_a_word_that_does_not_decide_is_followed_by_another():
    # cumulative 2^64/8 + 3, 2^64/8 + 3 + ... : two values end inside the cell of the same first word
    cell = 1 << 61
    table = DistributionTable(10, np.array([cell, cell, TOP], dtype=np.uint64), np.array([3, 9, 0], dtype=np.uint64))
    for second, value in ((2, 10), (3, 11), (8, 11), (9, 12), (TOP, 12)):
        assert table.draw(Given(cell, second), 1).tolist() == [value]
    assert table.draw(Given(cell - 1, cell + 1, TOP - 1), 3).tolist() == [10, 12, 12]
    assert table.draw(Given(TOP, 0), 1).tolist() == [13]


def test_a_law_that_does_not_fit_into_a_table_is_refused():
    with pytest.raises(OverflowError, match="values do not cover the distribution"):
        DistributionTable.of(iter([Decimal("0.5"), Decimal("0.25")]), 0)
