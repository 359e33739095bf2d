"""The script of a report's page prices as the library does; run by Node.js, if it is installed."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import accountant as ac
from accountant.guarantee import format_up
from accountant.plan import EVENTS, Plan, builtin_plans, load_plan, parameters_of
from accountant.renyi.conversion import CONVERSIONS
from accountant.report.script import plan_json, script
from accountant.report.tables import choose_orders, round_up
from tests.cases import audit_after

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

ENGINE = script().split("// Numbers as the library prints them")[0]
"""The accounting engine."""

FORMAT = (Path(ac.__file__).parent / "report" / "page" / "format.js").read_text("utf-8")

READ = """
const read = (x) => (Array.isArray(x) ? x.map(read) : x === "inf" ? Infinity : x);
const write = (key, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
"""
CURVES = "const f = (c) => c.orders.map(read).map(Curves.curveOf(c.form, c.noise, c.rate))"
PRICES = """
const f = (plan) => {
  const parts = plan.releases.map((release) => {
    const values = Object.fromEntries(release.controls.map(({ key, value }) => [key, value]));
    return { count: values.count, curve: Prices.curvesOf(release, plan.orders)(values) };
  });
  return Prices.RULES.map((rule) => Prices.price(parts, plan.delta.value, rule, plan.orders).epsilon);
}
"""

COMPUTED = {
    "gaussian": True,
    "gnmax": True,
    "gaussian-dp": True,
    "randomized-response": True,
    "pure-dp": True,
    "laplace": False,
    "lnmax": False,
    "zero-concentrated-dp": False,
}
"""Events whose curves the page computes, and whether also Poisson-subsampled."""


def node(code: str, cases: list) -> list:
    """What a JavaScript function named f makes of every case."""
    text = f"{ENGINE}\n{FORMAT}\n{READ}\n{code};\nconsole.log(JSON.stringify(cases.map((c) => f(c)), write));"
    done = subprocess.run(
        [NODE, "--eval", text], input=json.dumps(cases), capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def numbers(values: list) -> np.ndarray:
    return np.array([float(str(value).replace("Infinity", "inf").replace("NaN", "nan")) for value in values])


def noise_of(name: str) -> str:
    return next(parameter.name for parameter in parameters_of(EVENTS[name]) if parameter.noise)


class Draw:
    """Random settings: mostly such as people use, some at the ends of what is accepted."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def log(self, low: float, high: float) -> float:
        return float(10 ** self.rng.uniform(math.log10(low), math.log10(high)))

    def event(self, name: str) -> tuple[dict, float]:
        wide = self.rng.random() < 0.3
        scale = self.log(1e-8, 1e50) if wide else self.log(0.05, 1e3)
        whole = not COMPUTED[name] or self.rng.random() < 0.3
        rate = 1.0 if whole else self.log(1e-15 if wide else 1e-4, 1)
        if name == "randomized-response":
            return {"epsilon": self.log(1e-8, 500), "bits": int(self.rng.integers(1, 33))}, rate
        if name == "laplace":
            sizes = {"sensitivity": self.log(0.1, 10), "coordinates": int(self.log(1, 1e6))}
            return {"scale": scale, **sizes}, rate
        if name == "gaussian":
            return {"sigma": scale, "sensitivity": self.log(0.1, 10)}, rate
        key = noise_of(name)
        return {key: {"epsilon": self.log(1e-8, 500), "mu": 1 / scale}.get(key, scale)}, rate

    def orders(self) -> list[float]:
        """Distances from order 1."""
        return [(1 + self.log(*ends)) - 1 for ends in [(1e-9, 1e12)] * 3 + [(1e-2, 1e3)] * 5]


def case(name: str, values: dict, rate: float, orders: list[float]) -> tuple[dict, np.ndarray]:
    """What the page is asked, and the library's answer."""
    event = EVENTS[name](**values)
    found = (ac.PoissonSubsampled(event, rate) if rate < 1 else event).renyi(1 + np.array([*orders, math.inf]))
    form = event._standard_form()._asdict()
    asked = {"form": form, "noise": values[noise_of(name)], "rate": rate, "orders": [*orders, "inf"]}
    return asked, found


ORDERS = [(1 + b) - 1 for b in (1e-9, 1e-4, 0.5, 1.0, 7.3, 100.0, 1e4, 1e9)]

EXTREMES = [
    ("gaussian", {"sigma": 1e50, "sensitivity": 1e-50}, 1e-15),
    ("gaussian", {"sigma": 0.05, "sensitivity": 1.0}, 1 - 1e-9),
    ("gaussian", {"sigma": 0.3, "sensitivity": 1.0}, 1e-3),
    ("gaussian-dp", {"mu": 0.0}, 0.5),
    ("randomized-response", {"epsilon": 500.0, "bits": 32}, 0.5),
    ("randomized-response", {"epsilon": 1e6, "bits": 10**12}, 1.0),
    ("pure-dp", {"epsilon": 0.0}, 0.5),
    ("laplace", {"scale": 1e50, "sensitivity": 1e-50, "coordinates": 1}, 1.0),
    ("laplace", {"scale": 1e-50, "sensitivity": 1e50, "coordinates": 10**12}, 1.0),
]


def test_curves_are_the_librarys():
    draw = Draw(0)
    cases = [case(name, *draw.event(name), draw.orders()) for name in COMPUTED for _ in range(30)]
    cases += [case(*extreme, ORDERS) for extreme in EXTREMES]
    for (asked, expected), answer in zip(cases, node(CURVES, [asked for asked, _ in cases]), strict=True):
        found = numbers(answer)
        assert (found >= expected * (1 - 2e-11)).all(), (asked, found, expected)
        assert (found <= expected * (1 + 2e-11)).all(), (asked, found, expected)


def plan_of(*releases: dict, delta: float = 1e-5, adjacency: str | None = None) -> Plan:
    tables = {"delta": delta, "release": [dict(line) for line in releases]}
    return Plan.from_tables("plan", tables | ({"adjacency": adjacency} if adjacency else {}))


def priced(plan: Plan) -> tuple[dict, list[float]]:
    rules = {rule: ac.epsilon(plan.composition, plan.delta, conversion=rule) for rule in CONVERSIONS}
    epsilons = [rules[rule].epsilon for rule in ("classic", "improved", "optimal")]
    return json.loads(plan_json(plan, plan.delta, "improved", rules)), epsilons


def random_plan(draw: Draw) -> Plan:
    lines = []
    for name in draw.rng.choice(list(COMPUTED), size=draw.rng.integers(1, 4)).tolist():
        values, rate = draw.event(name)
        lines.append({"event": name, "count": int(draw.log(1, 1e5)), **values})
        if rate < 1:
            lines[-1]["sampling_rate"] = rate
    return plan_of(*lines, delta=draw.log(1e-100, 0.5))


def same(found: list, expected: list[float], rel: float = 1e-7) -> bool:
    """Whether prices agree: if a curve has a kink, two searches for the best order end a little apart."""
    return safe(found, expected) and numbers(found) == pytest.approx(expected, rel=rel)


def safe(found: list, expected: list[float]) -> bool:
    """Whether no price is below the library's."""
    return bool((numbers(found) >= np.array(expected) * (1 - 1e-8)).all())


def test_prices_are_the_librarys():
    draw = Draw(1)
    cases = [priced(random_plan(draw)) for _ in range(15)]
    for (asked, expected), answer in zip(cases, node(PRICES, [asked for asked, _ in cases]), strict=True):
        assert same(answer, expected), asked


TABLES = [
    plan_of({"event": "laplace", "scale": 20, "sampling_rate": 0.1, "count": 30}),
    plan_of({"event": "collision", "epsilon": 0.5, "nonzeros": 2, "buckets": 8, "count": 10}),
    plan_of({"event": "discrete-laplace", "scale": 20}, {"event": "gaussian", "sigma": 5}, delta=1e-7),
    plan_of({"event": "zero-concentrated-dp", "rho": 1e-3, "sampling_rate": 0.5}, {"event": "lnmax", "scale": 9}),
    plan_of({"event": "randomized-response", "epsilon": 0.1, "bits": 40, "sampling_rate": 0.5}),
    plan_of({"event": "discrete-gaussian", "sigma": 20, "sampling_rate": 0.0}, {"event": "pure-dp", "epsilon": 0.5}),
    plan_of({"event": "noisy-screening", "sigma": 1e7, "threshold": 5e5, "max_votes": 10**6, "count": 100}),
    # one count passes surely and the next does not
    plan_of({"event": "noisy-screening", "sigma": 0.0074, "threshold": 12.3, "max_votes": 116, "sampling_rate": 1e-9}),
    plan_of({"event": "noisy-screening", "sigma": 1e-6, "threshold": 1e12, "max_votes": 3, "min_votes": 1}),
    plan_of({"event": "laplace", "scale": 2, "coordinates": 2}, delta=0.0, adjacency="replace"),
]


@pytest.fixture
def small_tables(monkeypatch):
    """Tables with present values only, which take little time."""
    monkeypatch.setattr("accountant.report.script.MOST", 0)


@pytest.mark.audit
@pytest.mark.usefixtures("small_tables")
def test_builtin_plans_are_priced_as_written():
    cases = [priced(load_plan(name)) for name in builtin_plans() if "data-dependent" not in name]
    for (asked, expected), answer in zip(cases, node(PRICES, [asked for asked, _ in cases]), strict=True):
        assert same(answer, expected, 2e-7), asked


@pytest.mark.audit
@pytest.mark.usefixtures("small_tables")
def test_plans_with_tables_are_priced_as_written():
    cases = [priced(plan) for plan in TABLES]
    for (asked, expected), answer in zip(cases, node(PRICES, [asked for asked, _ in cases]), strict=True):
        assert all(len(release["controls"]) == 1 for release in asked["releases"] if "table" in release)
        assert same(answer, expected, 2e-7), asked


SCREENING = {"event": "noisy-screening", "sigma": 20, "threshold": 50, "max_votes": 80, "count": 30}
MOVED = [
    plan_of({**SCREENING, "sampling_rate": 0.1}, {"event": "gnmax", "sigma": 10, "sampling_rate": 0.1, "count": 20}),
    # not monotone in sigma: with little noise no count ever passes
    plan_of({**SCREENING, "threshold": 120, "count": 1000}),
    plan_of({"event": "collision", "epsilon": 0.5, "nonzeros": 2, "buckets": 8, "count": 10}, delta=1e-6),
    plan_of({"event": "discrete-laplace", "scale": 20, "sampling_rate": 0.1, "count": 50}),
]


@pytest.mark.audit
@pytest.mark.parametrize("plan", audit_after(1, MOVED))
def test_moved_sliders_of_tables_never_price_below_the_library(plan):
    """Some of all combinations of stops, the first and the last among them, with several counts."""
    asked, _ = priced(plan)
    parameters = asked["releases"][0]["table"]["parameters"]
    keys = [parameter["key"] for parameter in parameters]
    combinations = list(itertools.product(*(parameter["stops"] for parameter in parameters)))
    controls = {control["key"]: control for control in asked["releases"][0]["controls"]}
    assert set(controls) == {"count", *keys}
    chosen = [combinations[0], *combinations[1:-1][:: len(combinations) // 12 + 1], combinations[-1]]
    cases, expected = [], []
    for values, count in zip(chosen, itertools.cycle((1, 30, 2000)), strict=False):
        moved = plan
        for key, value in zip(("count", *keys), (count, *values), strict=True):
            moved = moved.with_value(f"{plan.releases[0].name}.{key}", value)
            controls[key]["value"] = value
        cases.append(json.loads(json.dumps(asked)))
        run = moved.composition
        prices = [ac.epsilon(run, plan.delta, conversion=rule) for rule in ("classic", "improved", "optimal")]
        expected.append([price.epsilon for price in prices])
    for values, answer, least in zip(chosen, node(PRICES, cases), expected, strict=True):
        assert safe(answer, least), (values, answer, least)
        assert (numbers(answer) <= np.array(least) * 1.06 + 1e-12).all(), (values, answer, least)


def test_infinite_curves_share_alike_and_have_no_bound():
    parts = "const parts = (costs) => costs.map(read).map((cost) => ({ count: 1, curve: () => cost }))"
    share = f"{parts}; const f = (costs) => Prices.shares(parts(costs), 3)"
    assert node(share, [["inf", 1, "inf"], ["inf"], [1, 3]]) == [[0.5, 0, 0.5], [1], [0.25, 0.75]]
    price = f"{parts}; const f = (costs) => Prices.RULES.map((rule) => Prices.price(parts(costs), 1e-5, rule).epsilon)"
    assert node(price, [["inf", 1]]) == [["Infinity"] * 3]


def test_a_value_between_the_stops_has_no_price():
    asked, _ = priced(MOVED[2])
    for control in asked["releases"][0]["controls"]:
        if control["key"] == "epsilon":
            control["value"] *= 1.001
    code = PRICES.replace("const f =", "const g =")
    code += "; const f = (c) => { try { return g(c); } catch (e) { return e.message; } }"
    assert node(code, [asked])[0].endswith("is not in the table")


@pytest.mark.audit
@pytest.mark.usefixtures("small_tables")
def test_other_counts_of_a_table_are_bounded_from_above():
    plan = TABLES[1]
    asked, _ = priced(plan)
    cases, expected = [], []
    for count in (0, 1, 2, 7, 100, 1000, 10**5, 10**9):
        moved = json.loads(json.dumps(asked))
        moved["releases"][0]["controls"][0]["value"] = count
        cases.append(moved)
        expected.append(priced(plan.with_value("count", count))[1])
    found = np.array([numbers(answer) for answer in node(PRICES, cases)])
    assert (found >= np.array(expected) * (1 - 1e-8)).all()
    assert (found[:6] <= np.array(expected)[:6] * 1.01).all()


def test_tables_are_rounded_up():
    values = np.array([0.0, 1.0, 0.1, 1 / 3, 1e-60, 1e60, math.inf, 5e-324, *Draw(3).rng.uniform(0, 1, 1000)])
    found = round_up(values).astype(float)
    assert (found >= values).all()
    ordinary = (values > 1e-37) & (values < 1e38)
    assert (found[ordinary] <= values[ordinary] * (1 + 2e-7)).all()


def test_tables_have_the_orders_that_set_the_prices():
    run = 30 * ac.PoissonSubsampled(ac.NoisyScreening(20, 50, 80), 0.1)
    rules = {rule: ac.epsilon(run, 1e-5, conversion=rule) for rule in CONVERSIONS}
    orders = choose_orders(run, 1e-5, rules)
    assert {price.order for price in rules.values()} <= set(orders.tolist())
    assert (np.diff(orders) > 0).all()
    assert 150 < orders.size < 200


def test_common_events_are_computed_and_all_others_looked_up():
    for name in COMPUTED:
        values, _ = Draw(4).event(name)
        assert EVENTS[name](**values)._standard_form() is not None
    for event in (ac.NoisyScreening(9, 20, 40), ac.Collision(0.5, 2, 8), ac.DiscreteGaussian(3.0)):
        assert event._standard_form() is None


def test_a_subclass_with_a_curve_of_its_own_is_looked_up():
    class Other(ac.Gaussian):
        def _subsampled_curve(self, rate, orders):
            return 2 * super()._subsampled_curve(rate, orders)

    assert Other(3.0)._standard_form() is None


def test_rates_are_offered_where_the_page_may_sample(monkeypatch):
    monkeypatch.setattr("accountant.report.tables.NOISE_STOPS", 3)
    screening = {"event": "noisy-screening", "sigma": 9, "threshold": 20, "max_votes": 40}
    sampled = {**screening, "min_votes": 5, "sampling_rate": 0.5}
    # that many votes are always cast as long as nobody is left out
    always = {**screening, "min_votes": 5}
    for line, offered in ((screening, True), (sampled, True), (always, False), ({"event": "lnmax", "scale": 9}, False)):
        (release,) = priced(plan_of(line))[0]["releases"]
        assert ("sampling_rate" in [control["key"] for control in release["controls"]]) is offered
    (release,) = priced(plan_of(screening, adjacency="replace"))[0]["releases"]
    assert [control["key"] for control in release["controls"]] == ["count", "sigma"]


def test_rounding_is_the_librarys():
    draw = Draw(2)
    values = [draw.log(1e-300, 1e300) for _ in range(300)] + [draw.log(1e-6, 1e7) for _ in range(300)]
    values += [
        0.0,
        1.0,
        0.1,
        0.3,
        1e-5,
        1e-4,
        99999.95,
        999999.5,
        999999.0,
        1e6,
        123456.7,
        0.99999951,
        1.0000001,
        5e-324,
    ]
    for value, found in zip(values, node("const f = (x) => Format.roundedUp(x)", values), strict=True):
        assert float(found) >= value
        assert found == format_up(value) or float(found) == float(format_up(value)), value
