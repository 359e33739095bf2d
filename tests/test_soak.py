"""A thousand random runs against exact prices; ``make soak`` checks a hundred thousand."""

import json
import random
from contextlib import suppress
from dataclasses import replace

import pytest

import accountant as ac
from accountant.tight import infinite_losses
from tests.soak import __main__ as command
from tests.soak import cases, runs, walk, walk_events
from tests.soak.cases import Case
from tests.soak.runs import KINDS, QUICK, Counts, check_numbers, load_progress

PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_certificates_of_random_runs(part):
    pytest.importorskip("dp_accounting")
    counts = check_numbers(range(part, QUICK, PARTS), Counts(), 60.0)
    assert counts.violations == []
    assert sum(count for what, count in counts.outcomes.items() if what.endswith(": held")) >= 0.9 * QUICK / PARTS


def wrong(case):
    """The same run with half of its true delta: what a price that is too small looks like from the other side."""
    return case._replace(true=lambda epsilon: 2 * case.true(epsilon) + 1e-300)


@pytest.mark.parametrize("kind", sorted(runs.DRAWS))
def test_a_price_that_is_too_small_is_found(kind, monkeypatch, capsys):
    draw = runs.DRAWS[kind]
    monkeypatch.setitem(runs.DRAWS, kind, lambda dice: wrong(draw(dice)))
    numbers = [number for number in range(QUICK) if KINDS[number % len(KINDS)] == kind][:12]
    counts = check_numbers(numbers, Counts(), 60.0)
    assert counts.violations
    number = int(counts.violations[0].rsplit(maxsplit=1)[1])
    assert number in numbers
    assert counts.violations[0] in capsys.readouterr().out
    assert check_numbers([number], Counts(), 60.0).violations == counts.violations[:1]


@pytest.mark.parametrize("number", [622])
def test_what_is_lost_beside_a_wider_interval_is_found(number, monkeypatch):
    """Where a refusal knew the finite losses of one direction alone, "auto" took their delta for that of the run."""

    def forget(answer, *refusals):
        for refusal in refusals:
            if refusal is not None:
                raise refusal
        return answer

    assert runs.find_broken("auto", number) == []
    monkeypatch.setattr(infinite_losses, "_unless_refused", forget)
    (found,) = runs.find_broken("auto", number)
    assert "delta = " in found


def test_a_price_above_the_renyi_route_is_found(monkeypatch):
    monkeypatch.setattr(cases, "by_renyi", lambda ask, case, point: 0.0)
    found = []
    for number in range(6):
        with suppress(ac.OutOfPatience):  # a run whose Rényi curve is infinite
            found += runs.find_broken("auto", number)
    assert found
    assert all("by the Rényi route 0.0" in what for what in found)


def test_a_soak_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    seen: list[int] = []

    def note(numbers, counts, seconds, only):
        seen.extend(numbers)
        counts.outcomes["finite: held"] += len(numbers)
        return counts

    monkeypatch.setattr(command, "check_numbers", note)
    file = tmp_path / "soak.json"
    for count in (300, 800):
        monkeypatch.setattr("sys.argv", ["soak", "--count", str(count), "--progress", str(file)])
        assert command.main() == 0
    assert seen == list(range(800))
    assert "800 runs: 800 finite: held" in capsys.readouterr().out
    assert json.loads(file.read_text("utf-8"))["done"] == 800
    assert load_progress(file, 7)[1] == 7  # another soak


def test_slow_runs_and_errors_are_counted(monkeypatch):
    def hang(dice):
        while True:
            pass

    def fail(dice) -> Case:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(runs, "KINDS", ["finite", "bits"])
    monkeypatch.setitem(runs.DRAWS, "finite", hang)
    monkeypatch.setitem(runs.DRAWS, "bits", fail)
    counts = check_numbers([0, 1], Counts(), 0.05)
    assert counts.outcomes == {"finite: slow": 1, "bits: broken": 1}
    assert "ZeroDivisionError: no; again by: python -m tests.soak --kind 'bits' --only 1" in counts.violations[0]
    assert counts.report() == 1


@pytest.mark.audit
def test_a_walk_finds_what_disagrees_and_notes_what_is_late(monkeypatch):
    counts = check_numbers([3], Counts(), 60.0, "walk")
    assert counts.violations == []
    price = ac.epsilon

    def half(run, delta, **options):
        found = price(run, delta, **options)
        return replace(found, epsilon=found.epsilon / 2) if options.get("method") == "renyi" else found

    monkeypatch.setattr(ac, "epsilon", half)
    monkeypatch.setattr(walk, "LATE", 0.0)
    counts = check_numbers(range(12), Counts(), 60.0, "walk")
    assert any("by the Rényi route" in what for what in counts.violations)
    assert counts.late


def test_a_walk_comes_by_all_registered_events():
    dice = random.Random(0)
    drawn = {type(walk_events.draw_of(dice, kind)) for kind in walk_events.kinds()}
    assert drawn == set(walk_events.kinds())
    assert len(drawn) > 30


@pytest.mark.parametrize(("kind", "number"), [("one release", number) for number in (65377, 82349, 88372)])
def test_what_a_long_soak_found_holds(kind, number):
    """Deltas below 1e-316, which were rounded inward: floats so small are 5e-324 apart."""
    assert runs.find_broken(kind, number) == []


NEW = 53887, 62287, 82670
WALKS = 17, 40, 394, 606, 1243, 200134, 218670, 300200, 300242, 300550, 301337, 301364
"""What these found has tests of its own, too."""


@pytest.mark.parametrize("number", [*NEW, *(pytest.param(number, marks=pytest.mark.audit) for number in WALKS)])
def test_what_a_walk_found_holds(number):
    """Errors and warnings at the ends of ranges, and a price where an infinite loss leaves none."""
    assert check_numbers([number], Counts(), 60.0, "walk").violations == []


LATE = 60, 18670, 28134, 300712, 301531
"""What takes their time is counted in tests of its own."""


@pytest.mark.audit
@pytest.mark.parametrize("number", LATE)
def test_a_walk_that_was_late_or_never_ended_is_soon_done(number):
    """Sums of ratios, short Gaussians, integrals over many knots, equal losses, rounding that splits panels."""
    counts = check_numbers([number], Counts(), 60.0, "walk")
    assert counts.violations == []
    assert counts.outcomes == {"walk: held": 1}
