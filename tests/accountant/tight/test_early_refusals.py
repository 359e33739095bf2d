"""A delta of several kinds of screening that is foreseen to be far too wide is refused before its games are played."""

import math
import re
from types import SimpleNamespace

import pytest

import accountant as ac
from accountant import patience
from accountant.tight import block_answers, clock_blocks
from accountant.tight.route import TightRun
from accountant.tight.screening_blocks import Aim
from accountant.tight.searched import refuse_early, refuses_early


def screening(sigma, count, threshold=24.0, votes=40):
    return count * ac.NoisyScreening(sigma, threshold, votes)


THREE = screening(6.57, 52) + screening(2.53, 14) + screening(4.98, 218)
FAR = (
    screening(8.17, 45, 55.7, 191)
    + screening(3.46, 19, 28.9, 33)
    + screening(5.76, 145, 4.0, 5)
    + screening(3.78, 519, 104.8, 135)
    + screening(11.29, 17, 26.4, 122)
)


def refused(run, epsilon, **options):
    with pytest.raises(ac.ToleranceUnreachable) as error:
        ac.delta(run, epsilon, method="tight", **options)
    return error.value


def widths_in(message):
    """What is foreseen at least and at most, and the tolerance that is named."""
    least, most = map(float, re.search(r"foreseen to be ([0-9.]+) to ([0-9.]+) % wide", message).groups())
    return least / 100, most / 100, float(re.search(r"tolerance = ([0-9.e-]*[0-9])", message)[1])


@pytest.mark.parametrize(("run", "epsilon"), [(THREE, 12.7), (FAR, 39.3)])
def test_what_is_foreseen_is_so_and_the_tolerance_that_is_named_does(run, epsilon):
    error = refused(run, epsilon)
    least, most, named = widths_in(str(error))
    assert error.foreseen
    assert error.found is None
    assert 0.01 < least < most == named < 1.0
    found = ac.delta(run, epsilon, method="tight", tolerance=named)
    assert 0.5 * least < 1 - found.lower / found.delta <= named


def test_no_interval_is_foreseen_wider_than_all_of_the_price():
    """Games that lose several times delta: the least that was said was above the most."""
    plan, aim = SimpleNamespace(lost=0.5, likely=0.8), Aim(3.0, -30.0, 1e-3, 0.01, wanted=2e-3)
    error = clock_blocks._foreseen(3, plan, aim, math.inf)
    assert widths_in(str(error)) == (1.0, 1.0, 1.0)
    assert error.foreseen


def test_nothing_is_played_before_it(monkeypatch):
    """Neither games on clocks, nor what is below them; and far less is counted than a price takes."""

    def none(*_):
        raise AssertionError("played")

    monkeypatch.setattr(clock_blocks, "play_on_clock", none)
    monkeypatch.setattr(block_answers, "play_in_clock_order", none)
    with patience.allow_work(5.0) as work, refuse_early(), pytest.raises(ac.ToleranceUnreachable, match="foreseen"):
        TightRun(THREE, 0.01).delta(12.7)
    assert work.taken < 1.5


def test_what_is_certified_is_given_by_the_default_and_by_a_run_that_is_asked_itself():
    """These give the interval that is known, however wide."""
    found = ac.delta(THREE, 12.7, patience=3.0)
    assert found.method == "tight"
    assert 0.01 < 1 - found.lower / found.delta < 0.1
    with patience.allow_work(3.0), pytest.raises(ac.ToleranceUnreachable) as error:
        TightRun(THREE, 0.01).delta(12.7)
    assert not error.value.foreseen
    assert error.value.found is not None


def test_a_delta_of_more_kinds_is_that_of_games_on_clocks(monkeypatch):
    """Blocks of single kinds are no nearer there, and took patience from games at a tolerance that none meets."""
    tolerances = []

    def note(self, *_):
        tolerances.append(self.setting.tolerance)
        raise ac.ToleranceUnreachable("asked")

    monkeypatch.setattr(block_answers.Blocks, "_ask_blocks", note)
    found = ac.delta(FAR, 39.3)
    assert 0.01 not in tolerances
    assert 0.01 < 1 - found.lower / found.delta < 0.06


def test_games_that_may_be_near_enough_are_played():
    """So are those for which somebody waits, and those that count all kinds, where there is patience for these."""
    few = screening(6.57, 12) + screening(2.53, 4) + screening(4.98, 20)
    found = ac.delta(few, 4.0, method="tight", patience=60.0)
    assert 1 - found.lower / found.delta <= 0.01
    wide = ac.delta(THREE, 12.7, method="tight", tolerance=0.3)
    assert 1 - wide.lower / wide.delta <= 0.3


def test_more_patience_is_named_where_it_would_do(monkeypatch):
    monkeypatch.setattr(clock_blocks._Search, "enough", lambda self, lost, about="lost": 3e10)
    error = refused(THREE, 12.7)
    assert isinstance(error, ac.OutOfPatience)
    assert error.seconds > 30.0
    assert re.search(r"accepted: patience = 3[0-9] at least, tolerance = ", str(error))


def test_it_is_asked_for_in_a_block_only():
    with refuse_early():
        assert refuses_early()
    assert not refuses_early()
    assert math.inf == block_answers.aim_at(2.0, 1e-5, 0.1, 0.01).wanted
