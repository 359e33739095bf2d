"""Write `hard.json` and recompute `public.json`: `python -m tests.reference.make` from the root (a few minutes).

The inputs of hard.json are the binary doubles of its decimal strings, because the programs under test read doubles;
public.json was computed from the decimals themselves, which differ by up to 2e-16 of the results.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

from tests.reference import definitions as d
from tests.reference import integrals as i
from tests.reference.regimes import CONVERSION, GAUSSIAN_DP, PROFILE, RENYI

HERE = Path(__file__).parent
Entry = dict[str, Any]  # one JSON object
Curve = Callable[[mpf], mpf]
Convert = Callable[[mpf, mpf, mpf], mpf]


def as_doubles(e: Entry) -> Entry:
    """The entry with every decimal string replaced by the value of its double."""
    return {name: mpf(float(v)) if isinstance(v, str) and name != "event" else v for name, v in e.items()}


def pairs(e: Entry) -> Iterator[d.Pair]:
    """Pairs of distributions of an event with finitely many outcomes."""
    of: Callable[[str], mpf] = lambda name: mpf(e[name])  # noqa: E731
    local = mpf(e.get("local_epsilon", e.get("epsilon", 0)))  # a profile's own epsilon is where it is evaluated
    match e["event"]:
        case "randomized_response" | "pure_dp":
            yield d.randomized_response(local, e.get("bits", 1))
        case "poisson_randomized_response":
            kept, flipped = d.randomized_response(local, e["bits"])
            yield d.mixture(kept, flipped, of("rate")), flipped
        case "screening":
            yield from d.screening_pairs(of("sigma"), of("threshold"), e["lowest"], e["highest"])
        case "poisson_screening":
            yield from d.screening_pairs(of("sigma"), of("threshold"), e["lowest"], e["highest"], of("rate"))
        case "screening_data_dependent":
            yield from d.screening_data_dependent_pairs(of("sigma"), of("threshold"), e["count"])
        case "kary_response":
            yield d.kary_response(local, e["categories"])
        case "approximate_dp" | "poisson_approximate_dp":
            yield d.approximate_dp(local, of("told"), mpf(e.get("rate", 1)))
        case "collision":
            yield from d.collision_pairs(local, e["nonzeros"], e["buckets"])


def renyi(e: Entry) -> mpf:
    """The Renyi curve of an entry at its order."""
    order = mpf(e["order"])
    of: Callable[..., mpf] = lambda name, default="1": mpf(e.get(name, default))  # noqa: E731
    match e["event"]:
        case "gaussian" | "poisson_gaussian":
            return i.sampled_gaussian(of("sigma"), of("sensitivity"), of("rate"), order)
        case "laplace" | "poisson_laplace_exact":
            assert "rate" not in e or e.get("coordinates", 1) == 1
            return e.get("coordinates", 1) * i.sampled_laplace(of("scale"), of("sensitivity"), of("rate"), order)
        case "exponential_mechanism" | "poisson_exponential_mechanism":
            return d.bounded_range(of("epsilon"), of("rate"), lambda p, q: d.worst_renyi([(p, q)], order))
        case "poisson_gaussian_group":
            return i.sampled_group(of("sigma"), of("rate"), e["size"], order)
        case "poisson_zcdp_generic":
            return d.poisson_zcdp_generic(of("rho"), of("rate"), int(order))
        case "poisson_laplace_generic_bound":
            return d.poisson_laplace_generic(of("scale"), of("rate"), int(order))
        case "gnmax_data_dependent":
            return d.gnmax_data_dependent(of("sigma"), e["votes"], order)
        case "lnmax_data_dependent":
            independent = 2 * i.sampled_laplace(of("scale"), mpf(1), mpf(1), order)
            return d.lnmax_data_dependent(of("scale"), e["votes"], order, independent)
    return d.worst_renyi(pairs(e), order)


def profile(e: Entry) -> tuple[mpf, mpf]:
    """(remove, add) of an entry at its epsilon."""
    epsilon = mpf(e["epsilon"])
    of: Callable[..., mpf] = lambda name, default="1": mpf(e.get(name, default))  # noqa: E731
    match e["event"]:
        case "gaussian" | "poisson_gaussian":
            return i.sampled_gaussian_profile(of("sigma"), of("sensitivity"), of("rate"), epsilon)
        case "exponential_mechanism":
            local = mpf(e["local_epsilon"])
            return (d.bounded_range(local, mpf(1), lambda p, q: d.hockey_stick(p, q, epsilon)),) * 2
        case "poisson_gaussian_group":
            return i.sampled_group_profile(of("sigma"), of("rate"), e["size"], epsilon)
        case "poisson_laplace":
            return i.sampled_laplace_profile(of("scale"), of("sensitivity"), of("rate"), epsilon)
        case "laplace":
            return (i.laplace_profile(of("scale"), of("sensitivity"), e["coordinates"], epsilon),) * 2
    return d.worst_profile(pairs(e), epsilon)


def expand(table: str) -> Iterator[Entry]:
    """Entries of lines `event name=value ...`; commas list alternatives, semicolons make a list of integers."""
    counts = {"bits", "coordinates", "threshold", "lowest", "highest", "count", "nonzeros", "buckets"}
    counts |= {"size", "categories"}
    for line in filter(None, map(str.strip, table.splitlines())):
        event, *settings = line.split()
        names = [s.split("=")[0] for s in settings]
        for values in product(*(s.split("=")[1].split(",") for s in settings)):
            entry: Entry = {"event": event}
            for name, value in zip(names, values, strict=True):
                entry[name] = (
                    list(map(int, value.split(";"))) if name == "votes" else int(value) if name in counts else value
                )
            yield entry


def composed(e: Entry) -> Callable[[mpf], mpf]:
    """Renyi curve of a composition of public.json."""
    fields = {
        "gaussian": ("gaussian", "sigma sensitivity"),
        "laplace": ("laplace", "scale sensitivity"),
        "sgm": ("poisson_gaussian", "sigma rate"),
        "screening": ("screening", "sigma threshold lowest highest"),
        "sscreening": ("poisson_screening", "sigma threshold lowest highest rate"),
    }
    parts = []
    for count, (short, *values) in e["composition"]:
        event, names = fields[short]
        part: Entry = dict(zip(names.split(), values, strict=True)) | {"event": event}
        parts.append((count, part | {name: int(part[name]) for name in ("lowest", "highest") if name in part}))
    return lambda order: mp.fsum(count * renyi(part | {"order": order}) for count, part in parts)


def minimum(f: Callable[[mpf], mpf], low: mpf, high: mpf) -> tuple[mpf, mpf]:
    """(argument, value) of the least value of a unimodal function, golden section to 1e-9 of the argument."""
    golden = (mp.sqrt(5) - 1) / 2
    inner, outer = high - golden * (high - low), low + golden * (high - low)
    at_inner, at_outer = f(inner), f(outer)
    while high - low > 1e-9:
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            at_inner = f(inner := high - golden * (high - low))
        else:
            low, inner, at_inner = inner, outer, at_outer
            at_outer = f(outer := low + golden * (high - low))
    return inner, at_inner


def disagreement(computed: mpf, printed: str) -> mpf:
    return abs(computed / mpf(printed) - 1)


def check_public() -> None:
    """Report the worst relative disagreement with each part of public.json."""
    public = json.loads((HERE / "public.json").read_text())
    worst = max((disagreement(renyi(e), e["renyi"]), e) for e in progress(public["renyi"], "public renyi"))
    print("public renyi: worst", mp.nstr(worst[0], 3), worst[1])
    worst = max(
        (disagreement(d.gaussian_dp_epsilon(mpf(e["mu"]), mpf(e["delta"])), e["epsilon"]), e)
        for e in public["gaussian_dp"]
    )
    print("public gaussian_dp: worst", mp.nstr(worst[0], 3), worst[1])
    for e in progress(public["epsilon"], "public epsilon"):
        with mp.workdps(25):  # 12 digits are printed
            curve, delta = composed(e), mpf(e["delta"])
            for name, convert in (("classic", d.classic_epsilon), ("improved", d.improved_epsilon)):

                def cost(u: mpf, convert: Convert = convert, curve: Curve = curve, delta: mpf = delta) -> mpf:
                    return convert(1 + mp.exp(u), curve(1 + mp.exp(u)), delta)

                u, epsilon = minimum(cost, mpf(-3), mpf(5))
                print(
                    f"public epsilon {e['name']} {name}: epsilon off by",
                    mp.nstr(disagreement(epsilon, e[name]["epsilon"]), 3),
                    "order by",
                    mp.nstr(disagreement(1 + mp.exp(u), e[name]["order"]), 3),
                )


def progress(entries: list[Entry], title: str) -> Iterator[Entry]:
    start = time.monotonic()
    for k, entry in enumerate(entries, 1):
        begun = time.monotonic()
        yield entry
        if time.monotonic() - begun > 10:
            print(f"\nslow: {time.monotonic() - begun:.0f} s {entry}", file=sys.stderr)
        print(f"\r{title} {k}/{len(entries)} {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def digits(x: mpf) -> str:
    return str(mp.nstr(x, 25))


def make_hard() -> None:
    """Write hard.json, section by section so that a failure leaves what is done."""
    hard: dict[str, list[Entry]] = {"renyi": [], "profile": [], "conversion": [], "gaussian_dp": []}

    def write() -> None:
        (HERE / "hard.json").write_text(json.dumps(hard, indent=1) + "\n")

    for e in progress(list(expand(RENYI)), "renyi"):
        value = renyi(as_doubles(e))
        assert mpf("1e-25") <= value <= mpf("1e6"), (e, mp.nstr(value, 5))
        hard["renyi"].append(e | {"renyi": digits(value)})
    write()
    for e in progress(list(expand(PROFILE)), "profile"):
        remove, add = profile(as_doubles(e))
        assert all(x == 0 or mpf("1e-305") < x <= 1 for x in (remove, add)), (e, mp.nstr(remove, 5), mp.nstr(add, 5))
        hard["profile"].append(e | {"remove": digits(remove), "add": digits(add)})
    write()
    for e in progress(list(expand(CONVERSION)), "conversion"):
        order, curve, delta = (as_doubles(e)[name] for name in ("order", "renyi", "delta"))
        values = {
            "classic": d.classic_epsilon(order, curve, delta),
            "improved": d.improved_epsilon(order, curve, delta),
            "optimal": d.optimal_epsilon(order, curve, delta),
        }
        assert values["optimal"] <= values["improved"] * (1 + mpf("1e-60")), e
        assert values["improved"] <= values["classic"], e
        del e["event"]
        hard["conversion"].append(e | {name: digits(value) for name, value in values.items()})
    for e in progress(list(expand(GAUSSIAN_DP)), "gaussian_dp"):
        del e["event"]
        hard["gaussian_dp"].append(e | {"epsilon": digits(d.gaussian_dp_epsilon(**as_doubles(e)))})
    write()


if __name__ == "__main__":
    make_hard()
    check_public()
