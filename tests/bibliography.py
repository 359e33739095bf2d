"""The bibliography: entries of notebooks/references.bib, how they are cited, and citations found in text.

``python -m tests.bibliography`` writes the section References of notebooks/mathematics.md.
"""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIBLIOGRAPHY = ROOT / "notebooks" / "references.bib"
PAGE = ROOT / "notebooks" / "mathematics.md"
TITLE = "## References\n"

NAME = r"(?:van )?[A-ZÀ-Þ][\w'-]+"
CITATION = re.compile(rf"({NAME}(?:, {NAME})*(?:,? (?:&|&amp;|and) {NAME}| et al\.)?),?\s+\(?((?:19|20)\d\d)\b(?!-)")
"""Authors and year."""

VENUES = {"NeurIPS", "PoPETs", "SaTML"}


@dataclass(frozen=True)
class Work:
    """One entry of the bibliography."""

    key: str
    kind: str
    fields: dict[str, str]

    @property
    def authors(self) -> list[tuple[str, str]]:
        """(surname, given names) of every author."""
        return [tuple(author.split(", ", 1)) for author in self.fields["author"].split(" and ")]  # type: ignore[misc]

    @property
    def label(self) -> str:
        """How the work is cited: by up to three authors, or by the first of more and "et al."."""
        names = [surname for surname, _ in self.authors]
        return f"{joined(names) if len(names) < 4 else f'{names[0]} et al.'} {self.fields['year']}"

    @property
    def labels(self) -> set[str]:
        """How the work may be cited: also by all authors, or by the first of three and "et al."."""
        names, year = [surname for surname, _ in self.authors], self.fields["year"]
        return {plain(f"{joined(names)} {year}")} | ({plain(f"{names[0]} et al. {year}")} if len(names) > 2 else set())

    @property
    def line(self) -> str:
        """The entry as a line of the list of references."""
        names = joined([f"{given} {surname}" for surname, given in self.authors])
        places = ("booktitle", "journal", "publisher", "howpublished")
        where = next(self.fields[place] for place in places if place in self.fields)
        where += f" {self.fields['volume']}" if "volume" in self.fields and self.fields["volume"] not in where else ""
        note = f" {self.fields['note']}." if "note" in self.fields else ""
        title = re.sub(r"[{}]", "", self.fields["title"]).replace("``", "“").replace("''", "”")
        return f"* **{self.label}**: {names}. *{title}{'' if title[-1] == '?' else '.'}* {where}.{note}"


def joined(names: list[str]) -> str:
    """A list of names in words."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} & {names[-1]}"


def plain(text: str) -> str:
    """Without accents, with one space between words and "&" for "and"."""
    letters = unicodedata.normalize("NFKD", text)
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"\s+", " ", re.sub(r",? (?:&amp;|and) ", " & ", letters))


def works() -> list[Work]:
    """All entries."""
    found = []
    for kind, key, body in re.findall(r"^@(\w+)\{(\w+),\n(.*?)^\}", BIBLIOGRAPHY.read_text("utf-8"), re.M | re.S):
        fields = dict(re.findall(r"^ *(\w+) *= \{(.*)\},?$", body, re.MULTILINE))
        found.append(Work(key, kind, fields))
    return found


def citations(text: str) -> set[str]:
    """Citations in a text, which may run over lines of a docstring or comment."""
    flowing = re.sub(r"\s*\n\s*(?:#|//|\*)?\s*", " ", text)
    flowing = re.sub(r"""["'] ["']""", "", flowing)  # strings that are joined
    found = set()
    for names, year in CITATION.findall(flowing):
        if names not in VENUES and not names.isupper():
            found.add(plain(f"{names} {year}"))
    return found


def rendered() -> str:
    """The section References."""
    everyone = sorted(works(), key=lambda work: plain(work.label).casefold())
    return TITLE + "\n" + "\n".join(work.line for work in everyone) + "\n"


if __name__ == "__main__":
    before = PAGE.read_text("utf-8").partition(TITLE)[0].rstrip("\n")
    PAGE.write_text(f"{before}\n\n{rendered()}", "utf-8")
