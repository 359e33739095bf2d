"""What a training states, records, batch and epochs, is varied as it is written."""

import json
import re
import shlex

import pytest

import accountant as ac
from accountant.cli import calibrate as cli_calibrate
from accountant.cli import main
from accountant.patience import spend, watch_work

TRAINING = """
delta = 1e-5
[[release]]
name = "step"
event = "gaussian"
noise_multiplier = 1.0
records = 60000
batch = 256
epochs = 20
"""


@pytest.fixture
def calibrate(tmp_path, capsys):
    path = tmp_path / "training.toml"
    path.write_text(TRAINING)

    def run(*arguments):
        status = main(["calibrate", str(path), "--epsilon", "2", "--json", *arguments])
        out, err = capsys.readouterr()
        return json.loads(out) if status == 0 else err

    return run


def price(records=60000, batch=256, epochs=20.0, sigma=1.0):
    steps = -(-epochs * records // batch)
    found = ac.epsilon(int(steps) * ac.PoissonSubsampled(ac.Gaussian(sigma), batch / records), 1e-5)
    return found.epsilon


@pytest.mark.parametrize(
    ("key", "more"), [("batch", 1), ("records", -1), ("epochs", 0.01), ("noise_multiplier", -1e-3)]
)
def test_the_value_meets_the_target_and_the_next_does_not(calibrate, key, more):
    found = calibrate("--vary", key)
    name = "sigma" if key == "noise_multiplier" else key
    assert price(**{name: found["value"]}) <= 2 < price(**{name: found["value"] + more})
    assert found["epsilon"] == pytest.approx(price(**{name: found["value"]}), rel=1e-9)
    assert isinstance(found["value"], int) == (key in ("batch", "records"))
    assert calibrate("--vary", f"step.{key}")["value"] == found["value"]


def test_batches_and_epochs_are_proposed(calibrate):
    found = {line["vary"]: line for line in calibrate()["proposals"]}
    assert list(found)[:2] == ["step.batch", "step.epochs"]
    assert found["step.batch"]["now"] == 256
    assert found["step.batch"]["epsilon"] <= 2


@pytest.mark.audit
def test_numbers_within_a_release_are_proposed(tmp_path, capsys):
    path = tmp_path / "allocated.toml"
    inner = '[release.of]\nevent = "gaussian"\nsigma = 1\n'
    path.write_text(f'delta = 1e-5\n[[release]]\nname = "epoch"\nevent = "random-allocation"\nsteps = 9\n{inner}')
    assert main(["calibrate", str(path), "--epsilon", "1", "--method", "renyi", "--json"]) == 0
    found = {line["vary"]: line for line in json.loads(capsys.readouterr().out)["proposals"]}
    value = found["epoch.of.sigma"]["value"]
    price = ac.epsilon(ac.RandomAllocation(ac.Gaussian(value), 9), 1e-5, method="renyi")
    assert found["epoch.of.sigma"]["now"] == 1
    assert 0.999 < price.epsilon <= 1


def test_no_line_tells_more_than_the_target(calibrate, monkeypatch):
    """The price of a value that was found may have no patience left: by the Rényi route it was above the target."""

    class Dearer:
        method, epsilon, lower = "renyi", 7.0, None

    monkeypatch.setattr(cli_calibrate, "epsilon", lambda *_, **__: Dearer)
    assert {line["epsilon"] for line in calibrate()["proposals"]} == {2.0}


def test_a_present_price_by_the_renyi_route_says_so(calibrate, monkeypatch, capsys):
    found = ac.epsilon(ac.load_plan("dp-sgd").run, 1e-5, method="renyi")
    monkeypatch.setattr(cli_calibrate, "epsilon", lambda *_, **__: found)
    assert main(["calibrate", "dp-sgd", "--epsilon", "2"]) == 0
    assert "by the Rényi route (a tight price has no more than its part" in " ".join(capsys.readouterr().out.split())
    assert main(["calibrate", "dp-sgd", "--epsilon", "2", "--method", "renyi"]) == 0
    assert "by the Rényi route" not in " ".join(capsys.readouterr().out.split())


def test_present_values_of_all_numbers_are_told(tmp_path, capsys):
    path = tmp_path / "two.toml"
    release = '[[release]]\nname = "{}"\nevent = "gaussian"\nsigma = {}\nsensitivity = 1\n'
    path.write_text("delta = 1e-5\n" + release.format("a", 2) + release.format("b", 30))
    assert main(["calibrate", str(path), "--epsilon", "1", "--json"]) == 0
    now = {line["vary"]: line["now"] for line in json.loads(capsys.readouterr().out)["proposals"]}
    assert now["a.sigma,b.sigma"] == [2, 30]
    assert now["a.sigma"] == 2
    assert main(["calibrate", str(path), "--epsilon", "1"]) == 0
    assert "2, 30" in capsys.readouterr().out


def test_the_command_that_is_suggested_asks_for_the_same(tmp_path, capsys):
    """Its target was rounded, and its names were not quoted; another delta was left out."""
    path = tmp_path / "my plan's.toml"
    path.write_text('delta = 1e-5\n[[release]]\nname = "a; b"\nevent = "gaussian"\nsigma = 2\ncount = 3\n')
    asked = ["--epsilon", "0.98765432198", "--delta", "1.23456789e-7", "--set", "a; b.sigma=3", "--method", "renyi"]
    assert main(["calibrate", str(path), *asked]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "cost at most epsilon = 0.98765432198 at delta = 1.23456789e-07" in shown
    suggested = re.search(r"For one of them: accountant (calibrate .*? --method renyi)", shown)[1]
    words = shlex.split(suggested.replace("/ ", "/"))
    assert words[1].endswith("my plan's.toml")
    assert words[2:4] == ["--vary", "a; b.sigma"]
    assert main([words[0], str(path), *words[2:], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    price = ac.epsilon(3 * ac.Gaussian(found["value"]), 1.23456789e-7, method="renyi").epsilon
    assert 0.98765 < price <= 0.98765432198


@pytest.mark.parametrize(
    "asked", [[], ["--tolerance", "0.3"], ["--patience", "50"], ["--tolerance", "0.125", "--patience", "2.5"]]
)
def test_the_command_that_is_suggested_has_the_same_tolerance_and_patience(tmp_path, capsys, asked):
    path = tmp_path / "p.toml"
    path.write_text('delta = 1e-5\n[[release]]\nname = "a"\nevent = "gaussian"\nsigma = 2\n')
    assert main(["calibrate", str(path), "--epsilon", "1", *asked]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(r"--epsilon 1((?: --\w+ [\d.]+)*)", shown)[1].split() == asked


def test_what_a_plan_does_not_state_is_refused(calibrate, capsys):
    assert main(["calibrate", "dp-sgd", "--epsilon", "2", "--vary", "batch"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "has no number 'batch' to vary; accepted: count, sampling_rate" in error
    assert "epochs, records cannot share a value; accepted: only keys that take" in calibrate(
        "--vary", "records,epochs"
    )


SCREENINGS = "delta = 1e-6\n" + "".join(
    f'[[release]]\nname = "s{i}"\nevent = "noisy-screening"\nsigma = {2 + i}\nthreshold = 12.0\nmax_votes = 20\n'
    f"count = {20 + i}\n"
    for i in range(3)
)


@pytest.fixture
def propose(tmp_path, capsys):
    path = tmp_path / "screenings.toml"
    path.write_text(SCREENINGS)

    def run(patience, *arguments):
        with watch_work(lambda before, after: taken.append(after - before)):
            status = main(["calibrate", str(path), "--epsilon", "5", "--patience", str(patience), *arguments])
        return status, *capsys.readouterr()

    taken = run.taken = []
    return run


@pytest.mark.audit
def test_all_lines_share_one_patience(propose):
    """Each had all of it: a dozen lines took a dozen times as long."""
    status, out, _ = propose(1, "--json")
    assert status == 0
    found = json.loads(out)
    assert found["proposals"]
    assert len(found["proposals"]) + len(found["left_out"]) > 10
    assert all(line["epsilon"] <= 5 for line in found["proposals"])
    assert 0.3 < sum(propose.taken) <= 1.1


def test_lines_that_take_more_than_their_part_are_named_with_a_patience(propose, monkeypatch):
    def take_long(plan, vary, *_):
        spend(1e6, "this")
        if vary == "s1.sigma":
            spend(1e9, "that")
        return 1.0, 2.0

    monkeypatch.setattr(cli_calibrate, "_try", take_long)
    status, out, _ = propose(0.5)
    assert status == 0
    assert "Left out: s1.sigma, out of 15 lines that share the patience (that would take" in " ".join(out.split())
    assert json.loads(propose(0.5, "--json")[1])["left_out"] == ["s1.sigma"]
    # a tenth of what was left was for that line, and it would have taken 1.001 s
    assert 9.0 < float(re.search(r"accepted: patience = ([0-9.e+]+) *at least", " ".join(out.split()))[1]) < 13.0


def test_the_present_price_has_a_part_of_the_patience_as_well(propose):
    status, _, error = propose(0.01, "--method", "tight")
    assert status == 2
    assert re.search(
        r"the present price, out of 16 lines that share the patience .*, patience = 0.01; accepted: ", error
    )
    assert float(re.search(r"accepted: patience = ([0-9.e+]+) at least", error)[1]) > 0.1
