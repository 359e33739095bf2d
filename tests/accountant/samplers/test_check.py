"""Samplers are told from what was declared; the declared ones raise no more alarms than they may."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from mpmath import mp

import accountant as ac
from accountant.cli import main
from accountant.samplers.check import KINDS, _largest, binomial_tails, chance_of_no_repeat
from accountant.samplers.counts import by_record, most_alike
from accountant.samplers.stream import Stream
from accountant.samplers.tails import thirds

N = 600


def poisson(rng, steps, rate=0.05):
    return [np.flatnonzero(rng.random(N) < rate) for _ in range(steps)]


def fixed(rng, steps, batch=30):
    return [rng.choice(N, batch, replace=False) for _ in range(steps)]


def with_replacement(rng, steps, batch=30):
    return [rng.integers(0, N, batch) for _ in range(steps)]


def shuffled(rng, steps, batch=30, same=False):
    order, batches = rng.permutation(N), []
    while len(batches) < steps:
        order = order if same else rng.permutation(N)
        batches += [order[start : start + batch] for start in range(0, N, batch)]
    return batches[:steps]


def allocation(rng, steps, length=20, selected=1):
    batches = []
    while len(batches) < steps:
        chosen = np.argsort(rng.random((N, length)), axis=1)[:, :selected]
        batches += [np.flatnonzero((chosen == step).any(axis=1)) for step in range(length)]
    return batches[:steps]


SAMPLERS = {
    "poisson:0.05": poisson,
    "fixed:30": fixed,
    "with-replacement:30": with_replacement,
    "shuffled:30": shuffled,
    "allocation:20": allocation,
    "allocation:20:3": lambda rng, steps: allocation(rng, steps, selected=3),
    "shuffled:35": lambda rng, steps: shuffled(rng, steps, 35),
}


@pytest.mark.parametrize("declared", SAMPLERS)
@pytest.mark.parametrize("steps", [3, 65, 200])
def test_what_was_declared_raises_no_alarm(declared, steps):
    alarms = 0
    for seed in range(12):
        stream = SAMPLERS[declared](np.random.default_rng(seed), steps)
        found = ac.check_sampler(stream, declared, records=N, false_alarm_rate=0.05)
        alarms += not found.consistent
    assert alarms <= 3  # P(more) < 0.002 if every alarm has chance 0.05


@pytest.mark.parametrize("declared", [each for each in SAMPLERS if each != "shuffled:35"])
@pytest.mark.parametrize("ran", SAMPLERS)
def test_every_other_sampler_is_told(declared, ran):
    if ran == declared:
        return
    stream = SAMPLERS[ran](np.random.default_rng(1), 400)
    found = ac.check_sampler(stream, declared, records=N)
    assert not found.consistent, found


def test_the_reported_samplers():
    """Streams as in three threads: a sampler by weights, rates from rounded numbers of batches, a shuffled loader."""
    rng = np.random.default_rng(0)
    weights = rng.gamma(1.0, size=5000)
    weighted = [rng.choice(5000, 16, p=weights / weights.sum()) for _ in range(300)]
    for declared in ("poisson:16/5000", "poisson:1/8", "with-replacement:16"):
        assert not ac.check_sampler(weighted, declared, records=5000).consistent
    # 1000 records in batches of 300: four batches, so that every record joins with 1/4, not with 3/10
    rounded = [np.flatnonzero(rng.random(1000) < 1 / 4) for _ in range(40)]
    found = ac.check_sampler(rounded, "poisson:300/1000", records=1000)
    assert "participations" in [test.name for test in found.alarms]
    assert ac.check_sampler(rounded, "poisson:1/4", records=1000).consistent
    loader = shuffled(rng, 60)
    found = ac.check_sampler(loader, "poisson:0.05", records=N)
    assert {"records met once within 20 steps", "batches by size: usual"} <= {test.name for test in found.alarms}


def test_subtler_samplers():
    rng = np.random.default_rng(3)
    same = shuffled(rng, 100, same=True)
    assert not ac.check_sampler(same, "shuffled:30", records=N).consistent
    # a Poisson number of records, distinct, the next ones in a fixed order
    blocks = [np.arange(start, start + rng.binomial(N, 0.05)) % N for start in rng.integers(0, N, 300)]
    assert "neighbours by index in one batch" in [
        test.name for test in ac.check_sampler(blocks, "poisson:0.05", records=N).alarms
    ]
    sticky = [batch for batch in poisson(rng, 150) for _ in range(2)]
    assert "records in two steps 1 apart" in [
        test.name for test in ac.check_sampler(sticky, "poisson:0.05", records=N).alarms
    ]


ALIKE = "records in the two most alike steps of two epochs"


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(lambda rng, epoch: rng.permutation(20), id="every other order"),
        pytest.param(lambda rng, epoch: np.arange(20) if epoch % 2 else rng.permutation(20), id="some"),
    ],
)
def test_batches_that_stay_together_are_told_in_two_epochs(order):
    rng = np.random.default_rng(4)
    kept = rng.permutation(N).reshape(20, 30)
    fixed_batches = [kept[place] for epoch in range(2) for place in order(rng, epoch)]
    found = ac.check_sampler(fixed_batches, "shuffled:30", records=N)
    assert ALIKE in [test.name for test in found.alarms]
    # two partitions by turns: alike in the first epoch and the third
    other = rng.permutation(N).reshape(20, 30)
    turns = [part[place] for part in (kept, other, kept) for place in rng.permutation(20)]
    assert ac.check_sampler(turns[:40], "shuffled:30", records=N).consistent
    assert ALIKE in [test.name for test in ac.check_sampler(turns, "shuffled:30", records=N).alarms]


def test_an_allocation_of_which_only_the_first_steps_are_drawn_anew_is_told():
    rng = np.random.default_rng(6)
    once = rng.integers(1, 20, N)
    batches = []
    for _ in range(2):
        step = np.where(rng.random(N) < 1 / 20, 0, once)
        batches += [np.flatnonzero(step == each) for each in range(20)]
    found = ac.check_sampler(batches, "allocation:20", records=N)
    assert ALIKE in [test.name for test in found.alarms]


@pytest.mark.parametrize(("declared", "records"), [("allocation:1000000000000", 3), ("shuffled:1", 2**31)])
def test_an_epoch_far_longer_than_the_stream_takes_no_memory(declared, records):
    assert ac.check_sampler([[0], [1], [2]], declared, records=records).steps == 3


@pytest.mark.parametrize(
    "declared", ["poisson:0.3", "fixed:2", "with-replacement:2", "shuffled:2", "allocation:2", "allocation:3:2"]
)
def test_records_that_are_not_met_take_no_memory(declared):
    """One index of a hash made 16 GB of counts that are 0."""
    stream = [[0, 2**31 - 1], [5, 7], [0, 5], [1, 2]]
    ac.check_sampler(stream, declared)
    tracemalloc.start()
    found = ac.check_sampler(stream, declared)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.records == 2**31
    assert most < 2**26


@pytest.mark.parametrize("records", [3, 4, 9])
def test_records_that_are_not_met_count_as_much_as_others(records):
    seen = Stream([[0, 2], [2], [], [1, 2]], records)
    counts = np.bincount(seen.indices, minlength=records)
    met, unmet = by_record(seen)
    assert sorted(np.append(met, np.zeros(unmet, int)).tolist()) == sorted(counts.tolist())
    assert thirds("participations", met, 4, 0.4, unmet) == thirds("participations", counts, 4, 0.4)
    assert _largest("one", met, 4, 0.4, unmet) == _largest("one", counts, 4, 0.4)


def test_batches_without_a_record_have_none_in_common():
    assert most_alike(Stream([[], [], []], 5), 1) == (0, 3)


@pytest.mark.parametrize("text", ["[" * 10**5, "0 1\n" + "[" * 10**5 + "]" * 10**5, "[" * 300 + "]" * 300])
def test_lists_that_are_deep_are_one_line(text, tmp_path, capsys):
    path = tmp_path / "deep.txt"
    path.write_text(text)
    assert main(["check-sampler", str(path), "--declared", "poisson:0.5"]) == 2
    error = capsys.readouterr().err
    assert (error.count("\n"), "; accepted: " in error) == (1, True)


@pytest.mark.parametrize(("declared", "batch"), [("shuffled:1", 1), ("shuffled:600", N), ("shuffled:599", 599)])
def test_orders_at_their_ends_raise_no_alarm(declared, batch):
    steps = 3 * -(-N // batch)
    assert ac.check_sampler(shuffled(np.random.default_rng(8), steps, batch), declared, records=N).consistent


@pytest.mark.parametrize(("found", "trials", "share"), [(0, 10, 0.3), (4, 10, 0.3), (10, 10, 0.3), (7, 10**6, 1e-6)])
def test_tails_against_sums(found, trials, share):
    with mp.workdps(40):
        p = mp.mpf(share)
        *terms, here = (mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(found + 1))
        below = mp.fsum(terms)
    assert binomial_tails(found, trials, share) == pytest.approx((float(below + here), float(1 - below)), rel=1e-9)


def test_records_from_the_largest_index():
    stream = poisson(np.random.default_rng(5), 100)
    found = ac.check_sampler(stream, "poisson:0.05")
    assert found.consistent
    assert not found.records_counted
    assert found.records == 1 + max(int(batch.max()) for batch in stream)


@pytest.mark.parametrize(
    ("stream", "declared", "options", "message"),
    [
        ([[0]], "uniform:3", {}, "declared = 'uniform:3'; accepted: poisson:RATE"),
        ([[0]], "poisson:2", {}, "rate = 2 is out of range"),
        ([[0]], "poisson:1/0", {}, "declared = 'poisson:1/0'"),
        ([[0]], "fixed:4", {}, "accepted: batches of at most 1"),
        ([[0]], "allocation:3:4", {}, "accepted: at most 3 of 3 steps"),
        ([], "poisson:0.1", {}, "a stream without a batch"),
        ([[0, 1.5]], "poisson:0.1", {}, "step 0 = .*; accepted: a list of indices"),
        ([[0], [-1]], "poisson:0.1", {}, "step 1 has index -1"),
        ([[7]], "poisson:0.1", {"records": 5}, r"step 0 has index 7; accepted: \[0, 4\]"),
        ("abc", "poisson:0.1", {}, "accepted: an iterable of lists"),
        ([[0]], "poisson:0.1", {"false_alarm_rate": 0.0}, "false_alarm_rate = 0"),
    ],
)
def test_refusals(stream, declared, options, message):
    with pytest.raises(ac.ParameterError, match=message):
        ac.check_sampler(stream, declared, **options)


def test_every_kind_is_tested():
    assert {declared.split(":")[0] for declared in SAMPLERS} == set(KINDS)


def test_the_command(tmp_path, capsys):
    loader, good = shuffled(np.random.default_rng(0), 60), poisson(np.random.default_rng(0), 60)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(" ".join(map(str, batch)) for batch in loader))
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps([batch.tolist() for batch in good]))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps(batch.tolist()) for batch in good))
    common = ["--declared", "poisson:0.05", "--records", str(N)]
    assert main(["check-sampler", str(lines), *common]) == 1
    assert "This is not poisson:0.05" in capsys.readouterr().out
    for path in (whole, rows):
        assert main(["check-sampler", str(path), *common, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["consistent"] is True
        assert found["steps"] == 60
        assert math.isfinite(found["tests"][0]["p"])
    lines.write_text("1 2\n3 x\n")
    assert main(["check-sampler", str(lines), *common]) == 2
    assert "line 2: '3 x'; accepted: indices with spaces or commas" in capsys.readouterr().err
    assert main(["check-sampler", str(tmp_path / "none"), *common]) == 2


def test_the_chance_of_no_repeat():
    """Of a declared batch of any size, at once: a product of billions of factors underflows early."""
    for batch, records in ((0, 5), (1, 1), (2, 1), (3, 7), (8, 7), (30, 365)):
        exact = math.perm(records, batch) / records**batch
        assert chance_of_no_repeat(batch, records) == pytest.approx(exact, rel=1e-12)
    assert chance_of_no_repeat(2**31, 2**31) < 1e-300
    assert chance_of_no_repeat(2, 2**31) == 1 - 2.0**-31
