"""An event of one's own, in one file, works in plans and in every command; and no table elsewhere lists events."""

from __future__ import annotations

import ast
import csv
import json
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import accountant as ac
from accountant.cli import main
from accountant.events import registry
from accountant.events.answers import AdditiveNoise
from accountant.events.event import SHORTCUTS
from accountant.events.gaussian import gaussian_log_profile
from accountant.events.parameters import Range, parameters_of
from accountant.testing import check_event, example_events
from accountant.testing.strategies import events_of

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Blurred(ac.Event):
    """Values blurred by Gaussian noise, once for each of `views`.

    Rényi curve ``a * views / (2 * spread**2)``.
    """

    spread: Annotated[float, Range(1e-3, 1e6, noise=True, usual=(0.5, 50.0))]
    views: Annotated[int, Range(1, 1000, usual=(1, 4))] = 1
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    @classmethod
    def examples(cls):
        return (cls(3.0, 2),)

    @property
    def additive_noise(self):
        return AdditiveNoise("gaussian", self.spread)

    def caveats(self):
        return ("nobody else looks",)

    def _curve(self, orders):
        return orders * self.views / (2 * self.spread**2)

    def _log_profile(self, epsilons):
        both = gaussian_log_profile(self.views**0.5 / self.spread, epsilons)
        return both, both


PLAN = """\
delta = 1e-5

[[release]]
name = "looks"
event = "blurred"
spread = 20
views = 2
count = 30

[[release]]
event = "gaussian"
sigma = 30
"""
RUN = 30 * Blurred(20.0, 2) + ac.Gaussian(30.0)


@pytest.fixture(autouse=True)
def known():
    """The one line that makes the event known; taken back, as other tests count the registered events."""
    ac.register_event("blurred")(Blurred)
    yield
    registry.forget("blurred")


@pytest.fixture
def plan(tmp_path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(PLAN)
    return str(path)


@pytest.fixture
def answer(capsys):
    """What a command prints as JSON."""

    def ask(*arguments):
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


def test_plan(plan):
    assert ac.load_plan(plan).composition == RUN
    assert ac.composition_from_tables(ac.composition_to_tables(RUN)) == RUN


def test_its_mistakes_are_one_clear_line(tmp_path):
    path = tmp_path / "wrong.toml"
    for line, words in (("spread = 1e9", "out of range; accepted: [0.001, 1e+06]"), ("", "needs spread")):
        path.write_text(f'[[release]]\nevent = "blurred"\n{line}\n')
        with pytest.raises(ac.PlanError) as caught:
            ac.load_plan(path)
        assert words in str(caught.value)


@pytest.mark.parametrize("method", ["renyi", "tight"])
def test_price(answer, plan, method):
    found = answer("epsilon", plan, "--method", method)
    assert found["epsilon"] == ac.epsilon(RUN, 1e-5, method=method).epsilon
    # 30 releases of two views: mu^2 = 60/400 + 1/900
    exact = ac.epsilon(ac.GaussianDP((60 / 400 + 1 / 900) ** 0.5), 1e-5, method=method).epsilon
    assert found["epsilon"] == pytest.approx(exact, rel=0.01)


def test_price_in_words(plan, capsys):
    assert main(["epsilon", plan]) == 0
    assert "in looks nobody else looks" in " ".join(capsys.readouterr().out.split())


def test_sampled_price():
    sampled = ac.PoissonSubsampled(Blurred(2.0), 0.1)
    assert ac.epsilon(sampled, 1e-5).epsilon < ac.epsilon(Blurred(2.0), 1e-5).epsilon
    assert (sampled.sampling_rate, sampled.unsampled) == (0.1, Blurred(2.0))


def test_list(answer, capsys):
    assert answer("list")["events"]["blurred"] == {"spread": None, "views": 1}
    assert main(["list", "blurred"]) == 0
    assert "Values blurred" in capsys.readouterr().out


def test_calibrate(answer, plan):
    found = answer("calibrate", plan, "--vary", "looks.spread", "--epsilon", "1")
    assert ac.epsilon(30 * Blurred(found["value"], 2) + ac.Gaussian(30.0), 1e-5).epsilon <= 1.0
    # views are whole
    found = answer("calibrate", plan, "--vary", "looks.views", "--epsilon", "3")
    assert isinstance(found["value"], int)
    assert ac.epsilon(30 * Blurred(20.0, found["value"]) + ac.Gaussian(30.0), 1e-5).epsilon <= 3.0


def test_sweep(plan, tmp_path):
    out = tmp_path / "sweep.csv"
    assert main(["sweep", plan, "--vary", "looks.spread=10:40:3", "--out", str(out)]) == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    for row, spread in zip(rows, (10.0, 25.0, 40.0), strict=True):
        expected = ac.epsilon(30 * Blurred(spread, 2) + ac.Gaussian(30.0), 1e-5, method="renyi").epsilon
        assert float(row["epsilon"]) == pytest.approx(expected, rel=1e-12)


def test_verify(answer):
    assert Blurred(3.0, 2) in example_events()
    assert ac.PoissonSubsampled(Blurred(3.0, 2), 0.1) in example_events()
    check_event(Blurred(3.0, 2), max_examples=5)
    (found,) = answer("verify", "--event", f"{__name__}:example", "--examples", "5")["events"]
    assert found["broken"] == []


def example() -> Blurred:
    return Blurred(3.0, 2)


def test_random_events():
    from hypothesis import given, settings

    seen = []
    settings(max_examples=20, database=None, derandomize=True)(
        given(events_of(Blurred))(lambda event: seen.append(event))
    )()
    assert all(0.5 <= event.spread <= 50 and 1 <= event.views <= 4 for event in seen)
    assert len(set(seen)) > 5


def test_report(plan, tmp_path):
    page = tmp_path / "report.html"
    assert main(["report", plan, "-o", str(page), "--tolerance", "0.1"]) == 0
    text = page.read_text("utf-8")
    assert "Values blurred by Gaussian noise" in text
    assert "in looks nobody else looks" in text


@pytest.mark.each_run(1)
@pytest.mark.parametrize("kind", ["order", "shares", "releases", "trade-off"])
def test_plot(plan, tmp_path, kind):
    picture = tmp_path / "picture.svg"
    assert main(["plot", plan, "--kind", kind, "--out", str(picture)]) == 0
    assert picture.stat().st_size > 1000


def test_mechanisms_draw_its_noise():
    from mechanisms.noise.source import as_randomness, noise_of

    drawn = noise_of(Blurred(20.0), as_randomness(0), 4000)
    assert np.std(drawn) == pytest.approx(20.0, rel=0.1)


# --- the registry ----------------------------------------------------------------------------------------


def test_names_are_taken_once():
    with pytest.raises(ac.ParameterError, match="'gaussian' is that of accountant"):
        ac.register_event("gaussian")(Blurred)
    for name in ("Blurred", "two words", "", 3, "-x"):
        with pytest.raises(ac.ParameterError, match="accepted: lower-case words"):
            ac.register_event(name)(Blurred)
    ac.register_event("blurred")(Blurred)  # the same class, as when its module is loaded again


def test_a_subclass_has_no_name_and_no_shortcut():
    class Cheaper(ac.Gaussian):
        def _curve(self, orders):
            return super()._curve(orders) / 2

    assert ac.Gaussian.plan_name == "gaussian"
    assert Cheaper.plan_name is None
    assert Cheaper(2.0)._row() is None
    assert Cheaper(2.0)._summand() is None
    for name in SHORTCUTS:
        assert vars(Cheaper)[name] is vars(ac.Event)[name]
    with pytest.raises(ac.ParameterError, match="no name in plans"):
        Cheaper(2.0).to_table()


class Dearer(ac.PureDP):
    """A subclass that says in a curve and a profile of its own that it costs four times as much."""

    @property
    def _dear(self):
        return ac.PureDP(4 * self.epsilon)

    def _curve(self, orders):
        return self._dear._curve(orders)

    def _log_profile(self, epsilons):
        return self._dear._log_profile(epsilons)


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("method", ["renyi", "tight"])
def test_a_subclass_is_priced_by_its_own_curve(rate, method):
    """In compositions, which evaluate many curves at once, and in Poisson samples too."""
    own, parent, same = (
        9 * ac.PoissonSubsampled(event, rate) for event in (Dearer(0.2), ac.PureDP(0.2), ac.PureDP(0.8))
    )
    price, cheap, right = (ac.epsilon(run, 1e-6, method=method).epsilon for run in (own, parent, same))
    assert price >= right * (1 - 1e-6) > cheap * 2
    assert own.renyi(3.0) >= same.renyi(3.0) * (1 - 1e-9)


EXAMPLES = [example for kind in registry.event_kinds().values() for example in kind.examples()]


@pytest.mark.each_run(22)
@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_a_subclass_may_ask_its_parent_for_curve_and_profile(event):
    class Twice(type(event)):
        def _curve(self, orders):
            return 2 * super()._curve(orders)

        def _log_profile(self, epsilons):
            return super()._log_profile(epsilons)

    twice = Twice(**{each.name: getattr(event, each.name) for each in fields(event) if each.init})
    orders = np.array([1.5, 8.0])
    assert twice._curve(orders) == pytest.approx(2 * event._curve(orders))
    assert (3 * twice).renyi(8.0) == pytest.approx(6 * event.renyi(8.0))
    with suppress(ac.ProfileUnavailable):
        assert np.array_equal(twice._log_profile(orders), event._log_profile(orders), equal_nan=True)


class OftenTold(ac.ApproximateDP):
    def _log_profile(self, epsilons):
        return ac.ApproximateDP(self.epsilon, 1000 * self.delta)._log_profile(epsilons)


def test_what_a_subclass_tells_for_certain_is_not_that_of_its_parent():
    for event in (OftenTold(0.1, 1e-7), ac.PoissonSubsampled(OftenTold(0.1, 1e-7), 0.5)):
        for method in ("tight", "auto"):
            with pytest.raises(ac.NoGuarantee, match=r"may have an infinite loss.*accepted in a run: ApproximateDP"):
                ac.epsilon(5 * event, 1e-5, method=method)
    assert ac.epsilon(OftenTold(0.1, 1e-7), 1e-3, method="tight").epsilon < 0.1


@dataclass(frozen=True)
class Counted(ac.Event):
    count: Annotated[int, Range(1, 9)]
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return self.count * orders


def test_parameters_do_not_take_the_keys_of_plans():
    """A plan would read the number of releases as the parameter, or a parameter as a sampling rate."""

    with pytest.raises(ac.ParameterError, match=r"'count'.*accepted: other names"):
        ac.register_event("counted")(Counted)
    with pytest.raises(ac.ParameterError, match=r"'count'.*accepted: other names"):
        Counted(3).to_table(own=True)


@dataclass(frozen=True)
class Holds(ac.Event):
    """Costs what the event that it holds costs."""

    held: ac.Event
    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return self.held._curve(orders)


def test_held_events_may_be_samples_and_groups(tmp_path):
    sampled = ac.PoissonSubsampled(ac.Gaussian(3.0), 0.1)
    run = 7 * Holds(ac.Group(sampled, 4)) + 2 * Holds(Holds(sampled)) + Holds(ac.Gaussian(2.0, adjacency="replace"))
    path = tmp_path / "plan.toml"
    path.write_text(run.to_toml())
    assert ac.load_plan(path).run == run
    ac.register_event("holds")(Holds)
    try:
        assert ac.composition_from_tables(ac.composition_to_tables(run)) == run
    finally:
        registry.forget("holds")


def test_every_registered_event_states_its_ranges_and_its_noise():
    for kind in registry.event_kinds().values():
        numbers = [each for each in parameters_of(kind) if each.number]
        assert all(each.range is not None for each in numbers), kind
        assert sum(each.noise for each in numbers) <= 1
        given = {each.name: getattr(kind.examples()[0], each.name) for each in parameters_of(kind)}
        for each in numbers:
            for outside in (each.range.low - 1.0, each.range.high * 2.0):
                with pytest.raises(ac.ParameterError, match=each.name):
                    kind(**{**given, each.name: outside})


# --- no table elsewhere ----------------------------------------------------------------------------------

NAMED = {
    "accountant/__init__.py": "hands on public names",
    "accountant/events": "the events themselves",
    "accountant/cli/answers.py": "mu is a method of attacks, called as the noise is",
    "accountant/cli/doctor.py": "times the first price of a common run",
    "accountant/samplers": "events, above the route that brackets them",
    "accountant/selection.py": "an event, above the prices that it asks for",
    "accountant/risk.py": "mu is a method of attacks, called as the noise is",
    "accountant/cli/single_releases.py": "commands that are called like the events they price",
    "accountant/dp_sgd.py": "steps of DP-SGD are these events",
    "accountant/filters": "the two filters are the guarantees zCDP and GDP",
    "accountant/plots/papers.py": "a figure of Zhu et al. 2020 compares two mechanisms",
    "accountant/interop": "events of other programs are translated into these",
    "accountant/testing/laws.py": "an event of the other adjacency that nothing composes with",
}
"""Files that may name classes of events, or their names in plans, and why."""


def names_in(path: Path) -> set[str]:
    """Classes of events that a module names, and names of plans in its tables: keys of dicts, members of lists."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    found |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    members = [part for node in nodes if isinstance(node, ast.Tuple | ast.List | ast.Set) for part in node.elts]
    members += [part for node in nodes if isinstance(node, ast.Dict) for part in node.keys]
    found |= {part.value for part in members if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return found & ({kind.__name__ for kind in registry.event_kinds().values()} | set(registry.event_kinds()))


def test_events_are_named_in_their_own_files_alone():
    for path in sorted((ROOT / "accountant").rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not any(place == reason or place.startswith(f"{reason}/") for reason in NAMED):
            assert not names_in(path), place


@pytest.mark.audit
def test_sampled_events_are_asked_and_not_unwrapped():
    """Nobody asks whether an event is a PoissonSubsampled one; it says its rate and what it samples."""
    for package in ("accountant", "mechanisms"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                    asked = "PoissonSubsampled" in ast.dump(node.args[1])
                    assert not asked or path.name == "subsampled.py", f"{path.name}:{node.lineno}"
