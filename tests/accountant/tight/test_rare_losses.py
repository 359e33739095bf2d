"""Games of screenings whose losses are rarely large, and then far larger than the price: memory, work and width."""

import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.patience import tally_work
from accountant.tight.cover_kernels import STEP_ROUNDING
from accountant.tight.game_setup import COSTS, Asked, round_down, set_up, work_of
from accountant.tight.game_value import PlayedGame
from accountant.tight.kinds_above import bound_kinds
from accountant.tight.mixed_game import play_in_order, play_kinds
from accountant.tight.pairs import Family, Pairs
from accountant.tight.screening_families import MAX_MEMORY, solve_capped, solve_near
from accountant.tight.screening_game import Windows, play_steps
from tests.accountant.tight.test_screening_game import exact_delta

S, P = ac.NoisyScreening, ac.PoissonSubsampled

LARGE = 2 * P(S(24.435533337867728, -1.71919604889957, 3, 1), 0.14610273091764603) + 3 * P(
    S(0.8538677237158714, -1.8188706689768612, 3), 0.28178557772629714
)
"""Their largest losses are 4.9 nats each."""

BESIDE = LARGE + P(ac.RandomizedResponse(0.035434302293629864), 0.006891867953137711)

RARE = [
    (3 * S(0.18737706166041607, -0.6417565251474777, 2) + P(S(17.85785, 5.75435, 4), 0.0403129), 0.0014475570656749916),
    (2 * P(S(7.437, -1.4497, 1), 0.01013) + 2 * S(0.19145, -1.78741, 4), 1e-14),
    (P(S(1.30864, 2.41997, 4), 0.07095) + 3 * P(S(0.115394, -0.653867, 4), 0.0031461), 0.0122850),
]

EXACT = {0.0: 0.0160356166, 0.001: 0.0156916136, 0.01: 0.0136751893}
"""delta of `BESIDE`, by the exact game."""


@pytest.mark.parametrize("epsilon", EXACT)
def test_beside_other_releases_they_are_priced_to_the_tolerance(epsilon):
    """An interval was 17 % wide, and at epsilon 0 an array of 96 million grid points was made."""
    found = ac.delta(BESIDE, epsilon, method="tight")
    assert found.lower * (1 - 1e-8) <= EXACT[epsilon] <= found.delta * (1 + 1e-8)
    assert found.delta - found.lower <= 0.01 * found.delta


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("run", "delta"), RARE)
def test_a_price_is_near_whatever_the_deviation_is(run, delta):
    """It was up to 54 % wide: large losses make the deviation large, beside which everything was near."""
    coarse, fine = (ac.epsilon(run, delta, method="tight", tolerance=width) for width in (0.01, 1e-4))
    for width, found in ((0.01, coarse), (1e-4, fine)):
        assert found.epsilon - found.lower <= width * found.epsilon
    assert coarse.lower <= fine.epsilon
    assert fine.lower <= coarse.epsilon


@pytest.mark.parametrize("cap", [math.inf, 0.01])
@pytest.mark.parametrize("options", [{}, {"order": 2.0}, {"tests": False}])
def test_no_game_takes_more_memory_than_is_counted(cap, options):
    """Windows of 0.01 nats had 12 nats of grid points on either side, which nothing counted."""
    asked = Asked(LARGE, 0.0271, cap=cap, **options)
    setup, cells = set_up(asked), 20000
    step = round_down(setup.reach_of_all / cells)
    windows = setup.windows(step)
    assert cells <= int(windows.reach.max()) <= 1.1 * cells
    assert setup.cells(step) <= 5 * int(windows.reach.max()) + 20
    families, play = setup.families, bound_kinds if setup.above else play_kinds
    if setup.order is not None:
        families, play = [setup.families[k] for k in setup.kinds()], play_in_order
    play(families, windows, step, 1e-3)  # kernels are compiled
    tracemalloc.start()
    try:
        play(families, windows, step, 1e-3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    counted = setup.memory(step)
    assert peak <= 1.2 * counted
    assert counted <= 2 * peak


def test_what_does_not_fit_is_not_begun():
    """Grids of a game that ends early, and of one that is asked ever more narrowly, are coarse enough for memory."""
    assert solve_capped(LARGE, 0.0271, 0.001, 1e-13) is None
    values, refusal = solve_near(LARGE, 0.0271, 1e-6, lambda found: 1.0)
    assert refusal is not None
    end, step = next(iter(values.values())).window()
    assert set_up(Asked(LARGE, 0.0271)).memory(step) <= MAX_MEMORY
    assert end / step > 100


def test_work_counts_what_shifts_reach_beyond_the_windows():
    asked = Asked(LARGE, 0.0271, cap=0.01)
    setup, step = set_up(asked), round_down(1e-5)
    states = (3 + 1) * (2 + 1)
    beyond = states * COSTS.cell * (setup.cells(step) - int(setup.windows(step).reach.max()))
    window = (setup.moves * COSTS.point) * float(np.mean(setup.windows(step).reach))
    assert work_of(asked, step, 1e-3) >= beyond + 0.7 * window


def test_little_work_is_enough_at_tiny_deltas():
    """Grids that hold losses of 46 nats each are given up for those that end early; 1.9e9 operations were counted."""
    run = 3 * P(S(23.514417461579306, 4.679059358066497, 3), 0.14338207821455667)
    run += 2 * S(0.11376976393644608, -1.1732634099439891, 3) + ac.PureDP(0.017958166884642638)
    with tally_work() as counted:
        found = ac.epsilon(run, 1e-14, method="tight", patience=1.0)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    assert counted[0] <= 1e9


@pytest.mark.parametrize("cells", [6, 40])
@pytest.mark.parametrize(("up", "down"), [(5.0, 1e-3), (1e-3, 5.0), (800.0, 2e-4), (3.0, 4.0)])
def test_shifts_that_are_cut_keep_both_bounds(up, down, cells):
    """Losses far beyond a window that is short: what they reach is between bounds there."""
    steps, step, pair = 4, 2.0**-8, Pairs(np.array([up]), np.array([down]))
    reach = np.full(steps + 1, cells, np.int64)
    upper, tests = play_steps(Family(pair, pair), Windows(reach, np.full(steps + 1, cells + 1)), step, 1e-3)
    infinite = np.ones(1), np.full(1, math.inf), math.inf
    game = PlayedGame(step, upper, tests, (steps + 1) * STEP_ROUNDING, *infinite)
    points = step * np.arange(cells + 1)
    with mp.workdps(60):
        for way, both in enumerate(((up, down), (down, up))):
            bounds = zip(points.tolist(), game.log_lower(way, points), game.log_upper(way, points), strict=True)
            for x, low, high in bounds:
                exact = exact_delta(*(mp.mpf(each) for each in both), steps, mp.mpf(x))
                assert mp.exp(low) <= exact * (1 + mp.mpf(10) ** -9), x
                assert exact <= mp.exp(high) * (1 + mp.mpf(10) ** -9), x
                assert mp.exp(high) <= exact + exact**2 + mp.mpf(10) ** -2, x
