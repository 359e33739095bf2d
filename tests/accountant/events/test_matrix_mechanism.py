"""Matrix mechanisms: sensitivities against all patterns and signs in integers, samples against integrals, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.events.matrix_mechanism import bands_of
from tests.cases import audit_after


def patterns(steps, times, separation, gaps):
    """All sets of at most so many steps with these gaps."""
    for count in range(1, times + 1):
        for pattern in itertools.combinations(range(steps), count):
            apart = [b - a for a, b in itertools.pairwise(pattern)]
            if all(gap == separation if gaps == "exactly" else gap >= separation for gap in apart):
                yield pattern


def largest_squares(matrix, *participation):
    """Over all patterns: the largest squared distance for signs of one vector, and sum of the sizes of G."""
    gram = np.array(matrix).T @ np.array(matrix)
    signed = summed = 0
    for pattern in patterns(len(matrix[0]), *participation):
        part = gram[np.ix_(pattern, pattern)]
        summed = max(summed, int(np.abs(part).sum()))
        for signs in itertools.product((1, -1), repeat=len(pattern) - 1):
            vector = np.array([1, *signs])
            signed = max(signed, int(vector @ part @ vector))
    return signed, summed


def toeplitz(column, steps):
    return [[column[i - j] if 0 <= i - j < len(column) else 0 for j in range(steps)] for i in range(steps)]


def random_participation(data, steps):
    gaps = data.draw(st.sampled_from(["at least", "exactly"]))
    return data.draw(st.integers(1, steps)), data.draw(st.integers(1, steps)), gaps


def near(value, square):
    return value == pytest.approx(math.sqrt(square), rel=1e-12)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_toeplitz_matrices_against_all_patterns(data):
    """Exact for coefficients that do not rise, for few bands and for one participation; else between what is known."""
    steps = data.draw(st.integers(1, 7))
    column = data.draw(st.lists(st.integers(-4, 9), min_size=1, max_size=steps).filter(any))
    if data.draw(st.booleans()):
        column = sorted(map(abs, column), reverse=True)
    if data.draw(st.booleans()):
        column = [c * (-1) ** i for i, c in enumerate(column)]
    participation = random_participation(data, steps)
    matrix = toeplitz(column, steps)
    lower, upper = ac.MatrixMechanism(1.0, column, steps, *participation).sensitivity
    signed, summed = largest_squares(matrix, *participation)
    assert upper >= math.sqrt(summed)
    assert lower <= math.sqrt(signed) * (1 + 1e-14)
    falls = all(abs(b) <= abs(a) for a, b in itertools.pairwise(column))
    aligned = any(all(sign(i) * c >= 0 for i, c in enumerate(column)) for sign in SIGNS)
    bands = max(i + 1 for i, c in enumerate(column) if c)
    if participation[0] == 1 or bands <= participation[1] or (aligned and (falls or participation[2] == "exactly")):
        assert near(upper, signed)
        assert near(lower, signed)


@pytest.mark.parametrize(("times", "separation"), [(2, 1), (3, 1), (2, 2), (3, 2)])
def test_all_short_columns(times, separation):
    """Where coefficients rise or change sign, the worst pattern need not be the first one."""
    worse = 0
    for column in itertools.product((-1, 0, 1), repeat=4):
        if any(column):
            lower, upper = ac.MatrixMechanism(1.0, column, 5, times, separation).sensitivity
            signed, summed = largest_squares(toeplitz(column, 5), times, separation, "at least")
            assert lower <= math.sqrt(signed) * (1 + 1e-14)
            assert upper >= math.sqrt(summed)
            first = np.array(toeplitz(np.abs(column), 5))[:, : times * separation : separation].sum(axis=1)
            worse += bool(np.linalg.norm(first) < math.sqrt(summed) * (1 - 1e-9))
    assert worse > 0


SIGNS = [lambda i: 1, lambda i: -1, lambda i: (-1) ** i, lambda i: -((-1) ** i)]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_matrix_against_all_patterns(data):
    steps, rows = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 7))
    least = data.draw(st.sampled_from([0, -5]))
    entries = st.lists(st.integers(least, 5), min_size=steps, max_size=steps)
    matrix = data.draw(st.lists(entries, min_size=rows, max_size=rows).filter(lambda m: any(map(any, m))))
    participation = random_participation(data, steps)
    lower, upper = ac.MatrixMechanism(1.0, matrix, steps, *participation).sensitivity
    signed, summed = largest_squares(matrix, *participation)
    assert upper >= math.sqrt(summed)
    assert lower <= math.sqrt(signed) * (1 + 1e-14)
    if participation[2] == "exactly" or participation[0] == 1:
        assert near(upper, summed)
        assert least < 0 or near(lower, signed)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_banded_matrices_are_exact(data):
    """Columns that lie `separation` apart do not overlap: the dynamic programme finds the best of them."""
    steps, bands = data.draw(st.integers(3, 7)), data.draw(st.integers(1, 3))
    matrix = [[data.draw(st.integers(-5, 5)) if 0 <= i - j < bands else 0 for j in range(steps)] for i in range(steps)]
    matrix[0][0] = 1
    times, separation = data.draw(st.integers(1, steps)), data.draw(st.integers(bands, steps))
    lower, upper = ac.MatrixMechanism(1.0, matrix, steps, times, separation).sensitivity
    signed, _ = largest_squares(matrix, times, separation, "at least")
    assert near(upper, signed)
    assert near(lower, signed)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_vectors_move_it_further(data):
    """Unit vectors of several dimensions, which signs of one vector do not cover."""
    steps = data.draw(st.integers(2, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    matrix = rng.normal(size=(steps, steps))
    times, separation, gaps = random_participation(data, steps)
    upper = ac.MatrixMechanism(1.0, matrix, steps, times, separation, gaps).sensitivity.upper
    for pattern in patterns(steps, times, separation, gaps):
        for _ in range(5):
            vectors = np.zeros((steps, 3))
            vectors[list(pattern)] = rng.normal(size=(len(pattern), 3))
            vectors[list(pattern)] /= np.linalg.norm(vectors[list(pattern)], axis=1, keepdims=True)
            assert np.linalg.norm(matrix @ vectors) <= upper


def test_a_toeplitz_matrix_and_its_rows_are_one():
    column = [1.0, 0.7, 0.2, 0.1]
    for gaps in ("at least", "exactly"):
        one = ac.MatrixMechanism(2.0, column, 12, 3, 4, gaps)
        rows = ac.MatrixMechanism(2.0, toeplitz(column, 12), 12, 3, 4, gaps)
        assert one.renyi(5.0) == pytest.approx(float(rows.renyi(5.0)), rel=1e-11)


@pytest.mark.parametrize("steps", [1, 2, 7, 64, 100])
def test_the_tree_is_the_tree(steps):
    ours, known = ac.MatrixMechanism(3.0, ac.tree_strategy(steps), steps), ac.TreeAggregation(3.0, steps)
    assert ours.renyi(7.0) == pytest.approx(float(known.renyi(7.0)), rel=1e-12)
    assert float(ours.renyi(7.0)) >= float(known.renyi(7.0))


def test_the_identity_composes():
    """No correlation: so many Gaussian releases as participations; under replacement of twice the norm."""
    for adjacency, moved in (("add-remove", 1.0), ("replace", 2.0)):
        run = ac.MatrixMechanism(5.0, [1.0], 1000, 30, 7, clip=1.5, adjacency=adjacency)
        known = 30 * ac.Gaussian(5.0, 1.5 * moved, adjacency)
        assert run.renyi(3.0) == pytest.approx(float(known.renyi(3.0)), rel=1e-12)
        assert ac.epsilon(run, 1e-6, method="tight").epsilon == pytest.approx(
            ac.epsilon(known, 1e-6, method="tight").epsilon, rel=1e-9
        )
    assert ac.MatrixMechanism(1.0, [1.0], 3, 10, 1).sensitivity.upper == pytest.approx(3**0.5, rel=1e-12)


@pytest.mark.parametrize(("decay", "momentum"), [(1.0, 0.0), (1.0, 0.9), (0.9999, 0.5)])
def test_square_roots_squared_are_the_workload(decay, momentum):
    steps = 40
    c = ac.square_root_strategy(steps, decay, momentum)
    d, m = Fraction(decay), Fraction(momentum)
    for j in range(steps):
        square = sum(Fraction(c[i]) * Fraction(c[j - i]) for i in range(j + 1))
        workload = sum(d**i * m ** (j - i) for i in range(j + 1))
        assert float(square) == pytest.approx(float(workload), rel=1e-13)
    assert list(c) == sorted(c, reverse=True)
    assert ac.square_root_strategy(7, decay, momentum) == c[:7]


def test_buffers_of_a_buffered_matrix():
    """C x by buffers, which hold decayed sums of what came before."""
    decays, scales, steps = (0.9, 0.25), (0.3, 0.1), 30
    x = np.random.default_rng(0).normal(size=steps)
    buffers, outputs = np.zeros(2), []
    for value in x:
        outputs.append(value + np.dot(scales, buffers))
        buffers = np.array(decays) * buffers + value
    column = ac.buffered_strategy(decays, scales, steps)
    assert np.convolve(column, x)[:steps] == pytest.approx(outputs, rel=1e-12)
    assert bands_of(column) == steps


# --- cyclic Poisson samples ------------------------------------------------------------------------------------


def mixtures(columns, rate, sign, offsets):
    """Density, on a grid, of what two columns release where each takes part with probability `rate`."""
    _, r = np.linalg.qr(columns)  # distances in the plane of the two columns
    total = 0.0
    for joins in itertools.product((0, 1), repeat=2):
        centre = sign * (r @ np.array(joins))
        chance = math.prod(rate if each else 1 - rate for each in joins)
        total = total + chance * np.exp(-((offsets[0] - centre[0]) ** 2 + (offsets[1] - centre[1]) ** 2) / 2)
    return total / (2 * math.pi)


def real_delta(columns, rate, adjacency, epsilon):
    """The worse direction's delta, by a sum over a grid of the plane."""
    x = np.linspace(-11, 11, 1201)
    offsets, cell = np.meshgrid(x, x, indexing="ij"), (x[1] - x[0]) ** 2
    p = mixtures(columns, rate, 1.0, offsets)
    q = mixtures(columns, *((rate, -1.0) if adjacency == "replace" else (0.0, 1.0)), offsets)
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell) for a, b in ((p, q), (q, p)))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("column", "rate"), audit_after(2, [((0.8, -0.6), 0.05), ((1.5, 1.0), 0.7), ((1.0, 0.5), 0.3)])
)
def test_cyclic_samples_of_banded_matrices(column, rate, adjacency):
    """Four steps, two groups: a record may take part in steps 0 and 2."""
    matrix = np.array(toeplitz(column, 4))
    mechanism = ac.MatrixMechanism(1.0, column, 4, adjacency=adjacency)
    run = mechanism.cyclic_poisson(2, rate)
    assert run.releases == 2
    for epsilon in (0.1, 0.5, 1.5):
        real = real_delta(matrix[:, [0, 2]], rate, adjacency, epsilon)
        found = ac.delta(run, epsilon, method="tight", tolerance=1e-3)
        assert found.lower <= real * (1 + 1e-4)
        assert real <= found.delta * (1 + 1e-4)
        assert found.delta <= found.lower * 1.002


def test_more_bands_than_groups_would_cost_more():
    """What is refused: overlapping columns, priced as if they did not overlap, are under-reported."""
    column, rate, epsilon = (1.0, 0.8, 0.6), 0.5, 0.5
    matrix = np.array(toeplitz(column, 5))
    priced = ac.delta(2 * ac.BandedCycle(1.0, column, 3, rate), epsilon, method="tight").delta
    assert real_delta(matrix[:, [0, 2]], rate, "add-remove", epsilon) > 1.05 * priced
    with pytest.raises(ac.SubsamplingError, match=r"groups = 2 with 3 bands: .* accepted: at least 3 groups"):
        ac.MatrixMechanism(1.0, column, 5).cyclic_poisson(2, rate)


def test_cycles_of_any_banded_matrix():
    """Of rows: the largest column counts, and columns may not interleave."""
    rows = [[1.0, 0, 0, 0], [0.5, 2.0, 0, 0], [0, 1.0, 1.0, 0], [0, 0, 0.5, 0.1]]
    run = ac.MatrixMechanism(4.0, rows, 4).cyclic_poisson(2, 0.1)
    known = 2 * ac.PoissonSubsampled(ac.Gaussian(4.0, 5**0.5), 0.1)
    assert run.renyi(4.0) == pytest.approx(float(known.renyi(4.0)), rel=1e-12)
    assert bands_of(tuple(map(tuple, rows))) == 2
    assert bands_of(((1.0, 0.0), (0.0, 1.0))) == 1
    assert bands_of(((0.0, 1.0), (1.0, 0.0))) == 2
    assert bands_of(ac.tree_strategy(8)) == 8
    assert bands_of((0.0, 1.0, 1.0)) == 2


def test_the_last_cycle_may_be_cut_off():
    """Five steps of two groups: the third column of the first group has one row left."""
    column, rate, epsilon = (1.0, 0.9), 0.4, 0.3
    run = ac.MatrixMechanism(0.9, column, 3).cyclic_poisson(2, rate)
    assert [len(event.strategy) for event in run.entries] == [2, 1]
    real = real_delta(np.array(toeplitz(column, 3))[:, [0, 2]] / 0.9, rate, "add-remove", epsilon)
    found = ac.delta(run, epsilon, method="tight", tolerance=1e-3)
    assert found.lower <= real * (1 + 1e-4)
    assert real <= found.delta * (1 + 1e-4) <= 1.003 * found.lower
    assert ac.MatrixMechanism(1.0, [0.0, 1.0], 5).cyclic_poisson(4, 0.1).releases == 1


def test_a_bound_on_the_sensitivity_is_not_told_for_exact():
    """Signs that do not go together: the true distance is between those that are known, and so is the price."""
    column = (1.0, -0.5, -0.9)
    event = ac.MatrixMechanism(2.0, column, 9, 4, 1)
    lower, upper = event.sensitivity
    assert lower < 0.99 * upper
    found = ac.epsilon(event, 1e-5, method="tight", tolerance=1e-3)
    ends = [ac.epsilon(ac.Gaussian(2.0, end), 1e-5, method="tight").epsilon for end in (lower, upper)]
    assert found.lower == pytest.approx(ends[0], rel=2e-3)
    assert found.epsilon == pytest.approx(ends[1], rel=2e-3)
    assert found.lower <= ends[0]
    assert ends[1] <= found.epsilon
    assert ac.Group(event, 2).renyi(3.0) == pytest.approx(3 * upper**2 / 2, rel=1e-9)
    with pytest.raises(ac.ProfileUnavailable):
        ac.epsilon(ac.Group(event, 2), 1e-5, method="tight")
    # cycles of columns of different length
    rows = [[1.0, 0, 0, 0], [0.5, 2.0, 0, 0], [0, 1.0, 1.0, 0], [0, 0, 0.5, 0.1]]
    cycles = ac.MatrixMechanism(4.0, rows, 4).cyclic_poisson(2, 0.1)
    found = ac.epsilon(cycles, 1e-5, method="tight")
    least, most = (2 * ac.PoissonSubsampled(ac.Gaussian(4.0, end), 0.1) for end in (0.1, 5**0.5))
    assert found.lower <= ac.epsilon(least, 1e-5, method="tight").epsilon
    assert found.epsilon == pytest.approx(ac.epsilon(most, 1e-5, method="tight").epsilon, rel=0.02)


def test_limits_of_cycles():
    """Rate 1 and as many groups as steps is one participation; rate 0 is free; one group and one band is DP-SGD."""
    strategy = ac.square_root_strategy(5)
    once = ac.MatrixMechanism(2.0, strategy, 5)
    assert once.cyclic_poisson(5, 1.0).renyi(3.0) == pytest.approx(float(once.renyi(3.0)), rel=1e-12)
    assert float(once.cyclic_poisson(5, 0.0).renyi(3.0)) == 0.0
    run = ac.MatrixMechanism(2.0, [1.0], 300).cyclic_poisson(1, 0.01)
    known = 300 * ac.PoissonSubsampled(ac.Gaussian(2.0), 0.01)
    assert run.renyi(3.0) == pytest.approx(float(known.renyi(3.0)), rel=1e-12)
    found, other = (ac.epsilon(each, 1e-6, method="tight", tolerance=1e-3) for each in (run, known))
    assert max(found.lower, other.lower) <= min(found.epsilon, other.epsilon)


# --- around ----------------------------------------------------------------------------------------------------


def test_groups_and_caveats():
    event = ac.MatrixMechanism(4.0, ac.square_root_strategy(3), 20, 4, 5)
    assert ac.Group(event, 3).renyi(2.0) == pytest.approx(9 * float(event.renyi(2.0)), rel=1e-12)
    assert event.caveats()[1] == "nobody's record takes part more than 4 times in 20 steps, at least 5 steps apart"
    assert len(event.caveats()) == 2
    loose = ac.MatrixMechanism(4.0, (1.0, -0.5, 0.9), 20, 4, 2)
    assert any("is an upper bound" in line for line in loose.caveats())
    assert "once in 20 steps" in ac.MatrixMechanism(4.0, [1.0], 20).caveats()[1]


@pytest.mark.parametrize(
    "run",
    [
        ac.MatrixMechanism(4.0, ac.square_root_strategy(5), 20, 4, 5, "exactly", 2.0) * 2,
        1 * ac.MatrixMechanism(4.0, ac.tree_strategy(5), 5),
        ac.MatrixMechanism(4.0, (1.0, 0.5), 20).cyclic_poisson(4, 0.1),
        ac.MatrixMechanism(4.0, (1.0, 0.5), 21, adjacency="replace").cyclic_poisson(4, 0.1),
    ],
)
def test_plans(run, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(run.to_toml())
    assert ac.load_plan(path).run == run


def test_noise_is_calibrated():
    sigma = ac.calibrate(lambda s: ac.MatrixMechanism(s, ac.square_root_strategy(8), 64, 8, 8), epsilon=2.0, delta=1e-6)
    run = ac.MatrixMechanism(sigma, ac.square_root_strategy(8), 64, 8, 8)
    assert ac.epsilon(run, 1e-6).epsilon == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.MatrixMechanism(1.0, [], 3), r"strategy = \[\]; accepted: 1 to 1000000 numbers"),
        (lambda: ac.MatrixMechanism(1.0, [0.0, 0], 3), "strategy = .*accepted"),
        (lambda: ac.MatrixMechanism(1.0, [0.0, 0, 0, 1], 3), "not 0 in these steps"),
        (lambda: ac.MatrixMechanism(1.0, "abc", 3), "strategy = 'abc'; accepted"),
        (lambda: ac.MatrixMechanism(1.0, ["abc"], 3), "strategy = .*accepted"),
        (lambda: ac.MatrixMechanism(1.0, [math.nan], 3), "strategy = nan is out of range"),
        (lambda: ac.MatrixMechanism(1.0, [[1.0, 0], [1]], 2), "rows of one length"),
        (lambda: ac.MatrixMechanism(1.0, [[1.0, 0], 2.0], 2), "strategy = .*accepted"),
        (lambda: ac.MatrixMechanism(1.0, [[0.0, 0]], 2), "strategy = .*accepted"),
        (lambda: ac.MatrixMechanism(1.0, [[1.0, 0]], 3), "steps = 3; accepted: 2, the columns"),
        (lambda: ac.MatrixMechanism(1.0, np.zeros((1, 5000)) + 1, 5000), "1 rows and 5000 columns; accepted: at most"),
        (lambda: ac.MatrixMechanism(1.0, [1.0], 3, 1, 1, "about"), "gaps = 'about'; accepted: 'at least', 'exactly'"),
        (lambda: ac.MatrixMechanism(1.0, [1.0], 0), "steps = 0"),
        (lambda: ac.MatrixMechanism(1.0, [1.0], 3, 0), "participations = 0"),
        (lambda: ac.PoissonSubsampled(ac.MatrixMechanism(1.0, [1.0], 3), 0.1), "not a sample of each of its steps"),
        (lambda: ac.PoissonSubsampled(ac.BandedCycle(1.0, [1.0], 3, 0.1), 0.1), "has drawn its own samples"),
        (lambda: ac.Group(ac.BandedCycle(1.0, [1.0], 3, 0.1), 2), "no proven price for a group"),
        (lambda: ac.BandedCycle(1.0, [1.0], 3, 1.1), "rate = 1.1"),
        (lambda: ac.square_root_strategy(0), "bands = 0"),
        (lambda: ac.square_root_strategy(3, 1.0, 1.0), r"momentum = 1 is out of range; accepted: \[0, 1\)"),
        (lambda: ac.buffered_strategy([0.5], [1.0, 2.0], 3), "1 decays, 2 scales; accepted: as many"),
        (lambda: ac.buffered_strategy([1.5], [1.0], 3), "decays = 1.5 is out of range"),
        (lambda: ac.tree_strategy(5000), "steps = 5000"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ac.AccountantError, match=message):
        make()


@pytest.mark.parametrize("gaps", ["at least", "exactly"])
@pytest.mark.parametrize("column", [(1.0, 0.02, -0.28, -0.6), (1.0, 0.68, 0.47, 0.76), (0.3, -1.0, 0.0, 0.5)])
def test_coefficients_cost_no_more_than_the_matrix_written_out(column, gaps):
    """Coefficients that rise or change signs were replaced by larger ones alone: 9.7 where the matrix cost 6.5."""
    steps = 6
    matrix = tuple(tuple(column[i - j] if 0 <= i - j < 4 else 0.0 for j in range(steps)) for i in range(steps))
    one, other = (
        ac.epsilon(ac.MatrixMechanism(2.0, strategy, steps, 3, 2, gaps=gaps), 1e-6) for strategy in (column, matrix)
    )
    assert one.epsilon <= other.epsilon * (1 + 1e-9)
    assert one.lower >= other.lower * (1 - 1e-9)
