"""What is known of every event and mechanism, gathered from the repository itself: proved, tested, audited.

``python -m tests.evidence`` writes the tables of notebooks/audits.md; with ``--measure`` it runs every broken
mechanism, and its intact twin, and writes what was found.
"""

import ast
import inspect
import re
import sys
import time
from collections import Counter
from pathlib import Path

import accountant as ac
import mechanisms as mx
from tests.laws.table import EVENTS
from tests.mechanisms.audit.broken import NINE
from tests.mechanisms.audit.broken_more import MORE
from tests.reference.events import MAKE, load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "notebooks" / "audits.md"

PAPER = re.compile(r"[A-Z][\w-]+(?:, [A-Z][\w-]+)*(?: & [A-Z][\w-]+| et al\.)?,? (?:\()?(?:19|20)\d\d")
"""A paper by its authors and year."""

AUDITS = {"mx.audit", "mx.audit_one_run"}
NONE = "**none**"


def event_names() -> list[str]:
    """Public events."""
    found = [name for name in ac.__all__ if inspect.isclass(getattr(ac, name))]
    return [name for name in found if issubclass(getattr(ac, name), ac.Event) and name != "Event"]


def mechanism_names() -> list[str]:
    """Public names that make or pass on releases."""
    verbs = ("fit", "label", "answer", "receive")
    named = [name for name in mx.__all__ if f"mx.{name}" not in AUDITS]
    return [
        name
        for name in named
        if inspect.isfunction(getattr(mx, name)) or any(hasattr(getattr(mx, name), verb) for verb in verbs)
    ]


def citations(thing) -> list[str]:
    """Papers that the docstrings and comments of its definition and its module cite, those of its own first."""
    own, module = inspect.getsource(thing), inspect.getsource(sys.modules[thing.__module__])
    found = [re.sub(r"\s+|\(", " ", text).replace("  ", " ") for text in PAPER.findall(own) + PAPER.findall(module)]
    return list(dict.fromkeys(found))


def reference_values() -> Counter:
    """How many values of the reference files, computed from definitions at high precision, each event has."""
    counts: Counter = Counter()
    for name in ("public", "hard"):
        for group, entries in load(name).items():
            if group == "gaussian_dp":
                counts["GaussianDP"] += len(entries)
            for entry in entries:
                if entry.get("event") in MAKE:
                    counts.update(kinds_of(MAKE[entry["event"]](entry)))
    return counts


def kinds_of(event) -> set[str]:
    inner = getattr(event, "event", None)
    return {type(event).__name__} | ({type(inner).__name__} if isinstance(inner, ac.Event) else set())


def law_counts() -> Counter:
    """How many parameter settings of each event all laws are held against."""
    return Counter(kind for event in EVENTS for kind in kinds_of(event))


def scanned() -> tuple[Counter, dict[str, set[str]]]:
    """How many files have tests of each thing, "ac.X" or "mx.X", and which have tests that audit it."""
    tests, audited = Counter(), {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        seen = set()
        for names in reached(ast.parse(path.read_text("utf-8"))):
            public = {name for name in names if name.startswith(("ac.", "mx."))}
            seen |= public
            for name in public if names & AUDITS else ():
                audited.setdefault(name, set()).add(path.stem)
        tests.update(seen)
    return tests, audited


def reached(tree: ast.Module) -> list[set[str]]:
    """For each test function of a module, the names in it, and in what it uses of the module's own."""
    imported, own = {}, {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            package = {"accountant": "ac", "mechanisms": "mx"}.get(node.module.split(".")[0])
            imported.update({alias.name: f"{package}.{alias.name}" for alias in node.names if package})
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            own[node.name] = names_of(node)
        elif isinstance(node, ast.Assign):
            own.update({target.id: names_of(node.value) for target in node.targets if isinstance(target, ast.Name)})
    found = []
    for test in [name for name in own if name.startswith("test_")]:
        names, following = set(), {test}
        while following:
            names |= following
            following = {name for known in following for name in own.get(known, ())} - names
        found.append({imported.get(name, name) for name in names})
    return found


def names_of(node: ast.AST) -> set[str]:
    """Names, and attributes of `ac` and `mx` with what they belong to."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in ("ac", "mx"):
            found.add(f"{part.value.id}.{part.attr}")
    return found


def rows() -> list[str]:
    """The table: events, then mechanisms."""
    values, laws, (tests, audited) = reference_values(), law_counts(), scanned()
    cases = [*NINE, *MORE]
    lines = ["| event | proved | tested | audited |", "|---|---|---|---|"]
    for name in event_names():
        tested = [f"{values[name]} values of the definition"] * bool(values[name])
        tested += [f"laws at {laws[name]} settings"] * bool(laws[name])
        tested += ["tests of its own"] * bool(tests["ac." + name])
        broken = [case for case in cases if name in case.events]
        lines.append(row(name, citations(getattr(ac, name)), tested, broken, audited.get("ac." + name, set())))
    lines += ["", "| mechanism | proved | tested | audited |", "|---|---|---|---|"]
    for name in mechanism_names():
        tested = ["tests of its own"] * bool(tests["mx." + name])
        broken = [case for case in cases if name == case.mechanism]
        lines.append(row(name, citations(getattr(mx, name)), tested, broken, audited.get("mx." + name, set())))
    return lines


def row(name: str, papers: list[str], tested: list[str], broken: list, files: set[str]) -> str:
    caught = sum(case.caught for case in broken)
    audits = [f"{caught} of {len(broken)} broken kinds caught"] * bool(broken)
    audits += [", ".join(f"`{file}`" for file in sorted(files))] * bool(files)
    cells = ["; ".join(papers[:3]), "; ".join(tested), "; ".join(audits)]
    return f"| `{name}` | " + " | ".join(cell or NONE for cell in cells) + " |"


def measured() -> list[str]:
    """Every broken mechanism and its intact twin, run once."""
    head = "| mechanism | what is broken | promised epsilon | at least | intact: at least, of promised | seconds |"
    lines = [f"{head} caught |", "|---|---|---|---|---|---|---|"]
    for case in [*NINE, *MORE]:
        start = time.perf_counter()
        _, promise, found = case.run(True, 0)
        seconds = time.perf_counter() - start
        _, kept, intact = case.run(False, 0)
        verdict = "yes" if float(found) > promise else f"no: {case.why}"
        numbers = f"{promise:.2f} | {float(found):.2f} | {float(intact):.2f} of {kept:.2f} | {seconds:.1f}"
        lines.append(f"| `{case.mechanism}` | {case.name} | {numbers} | {verdict} |")
        print(lines[-1], flush=True)
    return lines


def between(text: str, marker: str) -> str:
    """What stands between the markers."""
    return text.split(f"<!-- {marker} -->\n")[1].split(f"<!-- end of {marker} -->")[0]


def written(text: str, marker: str, lines: list[str]) -> str:
    """The page with other lines between the markers."""
    begin, end = f"<!-- {marker} -->\n", f"<!-- end of {marker} -->"
    before, after = text.split(begin)[0], text.split(end)[1]
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after


def main(arguments: list[str]) -> None:
    text = written(PAGE.read_text("utf-8"), "evidence", rows())
    if "--measure" in arguments:
        text = written(text, "broken mechanisms", measured())
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
