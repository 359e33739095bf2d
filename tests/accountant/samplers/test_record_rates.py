"""Poisson streams with a rate for each record: told from uniform and weighted ones, with few false alarms."""

import itertools

import numpy as np
import pytest

import accountant as ac
from accountant.cli import main
from accountant.samplers.record_rates import test_rates as rate_tests
from accountant.samplers.stream import Stream

N = 600
GROUPS = np.repeat([0.01, 0.05, 0.2], N // 3)
WEIGHTS = np.random.default_rng(7).gamma(2.0, 0.025, N).clip(0.0, 0.9)


def draw(rng, rates, steps):
    return [np.flatnonzero(rng.random(rates.size) < rates) for _ in range(steps)]


@pytest.mark.parametrize(
    "rates", [GROUPS, WEIGHTS, np.where(np.arange(N) < 5, [1.0], GROUPS)], ids=["groups", "gamma", "1"]
)
@pytest.mark.parametrize("steps", [1, 3, 200])
def test_what_was_declared_raises_no_alarm(rates, steps):
    alarms = 0
    for seed in range(15):
        stream = draw(np.random.default_rng(seed), rates, steps)
        alarms += not ac.check_sampler(stream, rates, false_alarm_rate=0.05).consistent
    assert alarms <= 4  # P(more) < 0.001 if every alarm has chance 0.05


def test_chances_are_bounds_by_enumeration():
    """Of all streams of two steps over three records: P(p <= t) <= t for every count, at every value that it takes."""
    rates = np.array([0.2, 0.5, 0.7])
    outcomes = []
    for coins in itertools.product((0, 1), repeat=6):
        joined = np.array(coins, bool).reshape(2, 3)
        chance = float(np.where(joined, rates, 1 - rates).prod())
        tests = rate_tests(Stream([np.flatnonzero(row) for row in joined], 3), rates)
        outcomes.append((chance, {test.name: test.p for test in tests}))
    assert sum(chance for chance, _ in outcomes) == pytest.approx(1.0)
    for name in {name for _, found in outcomes for name in found}:
        rows = [(found.get(name, 1.0), chance) for chance, found in outcomes]
        for level, _ in rows:
            assert sum(chance for p, chance in rows if p <= level) <= level * (1 + 1e-9)


def test_others_are_told():
    rng = np.random.default_rng(1)
    mean = float(GROUPS.mean())
    uniform, weighted = draw(rng, np.full(N, mean), 100), draw(rng, GROUPS, 100)
    assert not ac.check_sampler(uniform, GROUPS).consistent
    assert not ac.check_sampler(weighted, f"poisson:{mean}", records=N).consistent
    assert ac.check_sampler(weighted, GROUPS).consistent
    assert not ac.check_sampler(weighted, GROUPS[::-1]).consistent
    # one record that always joins, beside many that are as declared
    stuck = [np.union1d(batch, [3]) for batch in weighted]
    names = [test.name for test in ac.check_sampler(stuck, GROUPS).alarms]
    assert "most unlikely participations of a record at its rate" in names
    # weights as declared, batches of a fixed size
    size = round(float(GROUPS.sum()))
    fixed = [rng.choice(N, size, replace=False, p=GROUPS / GROUPS.sum()) for _ in range(100)]
    assert any("batches by size" in test.name for test in ac.check_sampler(fixed, GROUPS).alarms)
    sticky = [batch for batch in weighted for _ in range(2)]
    assert "records in two steps 1 apart" in [test.name for test in ac.check_sampler(sticky, GROUPS).alarms]


def test_the_command_reads_files(tmp_path, capsys):
    stream = draw(np.random.default_rng(2), GROUPS, 60)
    lines, csv, binary = tmp_path / "lines.txt", tmp_path / "rates.csv", tmp_path / "rates.npy"
    lines.write_text("\n".join(" ".join(map(str, batch)) for batch in stream))
    csv.write_text("\n".join(map(str, GROUPS)))
    np.save(binary, GROUPS)
    for path in (csv, binary):
        assert main(["check-sampler", str(lines), "--declared", f"poisson:@{path}"]) == 0
    np.save(binary, np.full(N, GROUPS.mean()))
    assert main(["check-sampler", str(lines), "--declared", f"poisson:@{binary}"]) == 1
    capsys.readouterr()
    csv.write_text("rate\n0.1\n")
    for path, words in ((csv, "holds other things than numbers"), (tmp_path / "none", "No such file")):
        assert main(["check-sampler", str(lines), "--declared", f"poisson:@{path}"]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rates", "options", "words"),
    [
        ([], {}, r"declared = \[\]; accepted: one rate"),
        ([0.1, 1.1], {}, "accepted: one rate in"),
        ([0.0, 0.0], {}, "not all of them 0"),
        ([0.1, float("nan")], {}, "accepted: one rate in"),
        (["a"], {}, "accepted: one rate in"),
        ([0.1, 0.1], {"records": 3}, "records = 3; accepted: 2"),
        ([0.1], {}, "step 0 has index 1"),
    ],
)
def test_refusals(rates, options, words):
    with pytest.raises(ac.ParameterError, match=words):
        ac.check_sampler([[0, 1]], rates, **options)
