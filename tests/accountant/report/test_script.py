"""The script of a report's page prices as the library does: run by Node.js, where there is one."""

from __future__ import annotations

import json
import math
import shutil
import subprocess

import mpmath
import numpy as np
import pytest

import accountant as ac
from accountant.guarantee import rounded_up
from accountant.plan import EVENTS, Plan, builtin_plans, load_plan, parameters_of
from accountant.renyi.conversion import CONVERSIONS
from accountant.report.script import COMPUTED, SAMPLED, embedded, script

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

KERNELS = script().split("// The page: controls")[0]
"""All of the script but the part that needs a page."""

READ = """
const read = (x) => (Array.isArray(x) ? x.map(read) : x === "inf" ? Infinity : x);
const write = (key, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
"""
CURVES = "const f = (c) => c.orders.map(read).map(Events.curveOf(c, c.values, null))"
PRICES = """
const f = (plan) => {
  for (const release of plan.releases) if (release.table) release.table = read(release.table);
  const parts = plan.releases.map((release) => {
    const count = release.controls[0].value;
    return { count, curve: Events.curveOf(release, release.values, plan.orders) };
  });
  return Prices.RULES.map((rule) => Prices.price(parts, plan.delta.value, rule, plan.orders).epsilon);
}
"""


def node(code: str, cases: list) -> list:
    """What a JavaScript function named f makes of every case."""
    text = f"{KERNELS}\n{READ}\n{code};\nconsole.log(JSON.stringify(cases.map((c) => f(c)), write));"
    done = subprocess.run(
        [NODE, "--eval", text], input=json.dumps(cases), capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def numbers(values: list) -> np.ndarray:
    return np.array([float(str(value).replace("Infinity", "inf").replace("NaN", "nan")) for value in values])


class Draw:
    """Random settings: mostly such as people use, some at the ends of what is accepted."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def log(self, low: float, high: float) -> float:
        return float(10 ** self.rng.uniform(math.log10(low), math.log10(high)))

    def event(self, name: str) -> tuple[dict, float]:
        wide = self.rng.random() < 0.3
        scale = self.log(1e-8, 1e50) if wide else self.log(0.05, 1e3)
        rate = (
            1.0 if name not in SAMPLED or self.rng.random() < 0.3 else self.log(1e-15, 1) if wide else self.log(1e-4, 1)
        )
        if name == "noisy-screening":
            most = int(self.log(1, 5000 if wide else 300))
            values = {
                "sigma": self.log(1e-6, 1e12) if wide else self.log(0.3, 300),
                "threshold": float(self.rng.uniform(-0.5, 1.5)) * most * (1e8 if self.rng.random() < 0.1 else 1),
                "max_votes": most,
                "min_votes": int(self.rng.integers(0, most)),
            }
            return values, rate
        if name == "randomized-response":
            return {"epsilon": self.log(1e-8, 500), "bits": int(self.rng.integers(1, 33))}, rate
        if name == "laplace":
            sizes = {"sensitivity": self.log(0.1, 10), "coordinates": int(self.log(1, 1e6))}
            return {"scale": scale, **sizes}, rate
        if name == "gaussian":
            return {"sigma": scale, "sensitivity": self.log(0.1, 10)}, rate
        (key,) = (parameter.name for parameter in parameters_of(EVENTS[name]) if parameter.noise)
        return {key: {"epsilon": self.log(1e-8, 500), "mu": 1 / scale}.get(key, scale)}, rate

    def orders(self) -> list[float]:
        """Distances from order 1."""
        return [(1 + self.log(*ends)) - 1 for ends in [(1e-9, 1e12)] * 3 + [(1e-2, 1e3)] * 5]


def case(name: str, values: dict, rate: float, orders: list[float]) -> tuple[dict, np.ndarray]:
    """What the page is asked, and the library's answer."""
    event = EVENTS[name](**values)
    found = (ac.PoissonSubsampled(event, rate) if rate < 1 else event).renyi(1 + np.array([*orders, math.inf]))
    return {"event": name, "values": {**values, "sampling_rate": rate}, "orders": [*orders, "inf"]}, found


ORDERS = [(1 + b) - 1 for b in (1e-9, 1e-4, 0.5, 1.0, 7.3, 100.0, 1e4, 1e9)]

EXTREMES = [
    # one count passes surely and the next not: log-ratios that are 0 at one end of a block
    ("noisy-screening", {"sigma": 0.0074, "threshold": 12.3, "max_votes": 116, "min_votes": 0}, 3.7e-10),
    ("noisy-screening", {"sigma": 2.7e-5, "threshold": 1991.0, "max_votes": 2081, "min_votes": 0}, 1.0),
    # as far from the threshold as may be: neighbouring squares all but cancel
    ("noisy-screening", {"sigma": 9e-4, "threshold": -4e11, "max_votes": 1, "min_votes": 0}, 1.0),
    ("noisy-screening", {"sigma": 1e-6, "threshold": 1e12, "max_votes": 3, "min_votes": 1}, 1e-15),
    # flat: all counts cost the same but for 1e-10
    ("noisy-screening", {"sigma": 8.6e9, "threshold": 23007.7, "max_votes": 15820, "min_votes": 0}, 1.4e-7),
    ("noisy-screening", {"sigma": 85.0, "threshold": 210.0, "max_votes": 300, "min_votes": 30}, 0.25),
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
        # flat maxima over many counts are found up to 5e-10, on the safe side
        many = asked["values"].get("max_votes", 0) - asked["values"].get("min_votes", 0) > 1000
        found = numbers(answer)
        assert (found >= expected * (1 - 2e-11)).all(), (asked, found, expected)
        assert (found <= expected * (1 + (6e-10 if many else 2e-11))).all(), (asked, found, expected)


def plan_of(*releases: dict, delta: float = 1e-5, adjacency: str | None = None) -> Plan:
    tables = {"delta": delta, "release": [dict(line) for line in releases]}
    return Plan.from_tables("plan", tables | ({"adjacency": adjacency} if adjacency else {}))


def priced(plan: Plan) -> tuple[dict, list[float]]:
    rules = {rule: ac.epsilon(plan.composition, plan.delta, conversion=rule) for rule in CONVERSIONS}
    epsilons = [rules[rule].epsilon for rule in ("classic", "improved", "optimal")]
    return json.loads(embedded(plan, plan.delta, "improved", rules)), epsilons


def random_plan(draw: Draw) -> Plan:
    lines = []
    for name in draw.rng.choice(list(COMPUTED), size=draw.rng.integers(1, 4)).tolist():
        values, rate = draw.event(name)
        if name == "noisy-screening" and values["sigma"] < 1e-3:
            values["sigma"] = 1.0
        lines.append({"event": name, "count": int(draw.log(1, 1e5)), **values})
        if rate < 1:
            lines[-1]["sampling_rate"] = rate
    return plan_of(*lines, delta=draw.log(1e-100, 0.5))


def same(found: list, expected: list[float]) -> bool:
    """Whether prices agree: where a curve has a kink, two searches for the best order end a little apart."""
    return bool((numbers(found) >= np.array(expected) * (1 - 1e-8)).all()) and numbers(found) == pytest.approx(
        expected, rel=1e-7
    )


def test_prices_are_the_librarys():
    draw = Draw(1)
    cases = [priced(random_plan(draw)) for _ in range(30)]
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
    plan_of({"event": "laplace", "scale": 2, "coordinates": 2}, delta=0.0, adjacency="replace"),
]


@pytest.mark.parametrize("name", [name for name in builtin_plans() if "data-dependent" not in name])
def test_builtin_plans_are_priced_as_written(name):
    asked, expected = priced(load_plan(name))
    assert same(node(PRICES, [asked])[0], expected)


def test_plans_with_tables_are_priced_as_written():
    cases = [priced(plan) for plan in TABLES]
    for (asked, expected), answer in zip(cases, node(PRICES, [asked for asked, _ in cases]), strict=True):
        assert same(answer, expected), asked


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


def test_every_event_is_computed_or_looked_up():
    assert set(SAMPLED) <= set(COMPUTED) <= set(EVENTS)
    for name in COMPUTED:
        assert f'"{name}"' in KERNELS or f"{name}:" in KERNELS


def test_rates_are_offered_where_the_page_may_sample():
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
    for value, found in zip(values, node("const f = (x) => Numerics.roundedUp(x)", values), strict=True):
        assert float(found) >= value
        assert found == rounded_up(value) or float(found) == float(rounded_up(value)), value


def test_error_function_against_its_definition():
    points = np.concatenate(
        [-np.geomspace(1e-9, 26, 150), np.geomspace(1e-9, 1e9, 300), [0.0, 0.5, 6.28, 6.29]]
    ).tolist()
    with mpmath.workdps(40):
        for x, found in zip(points, node("const f = Numerics.erfcx", points), strict=True):
            big = mpmath.mpf(x)
            # far out erfc underflows even there: the first terms of its asymptotic series
            exact = (
                mpmath.exp(big**2) * mpmath.erfc(big)
                if x < 1e3
                else (1 - 1 / (2 * big**2)) / (big * mpmath.sqrt(mpmath.pi))
            )
            assert found == pytest.approx(float(exact), rel=2e-15 * max(1.0, min(x, 0.0) ** 2)), x
