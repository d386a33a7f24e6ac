"""Plain technical English: terms that were retired do not return.

`docs/GLOSSARY.md` has the terms to use. A term may be listed here only if it is never the right one.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder, pattern in (
        ("src", "*.py"),
        ("src", "*.pyx"),
        ("tests", "*.py"),
        ("bench", "*.py"),
        ("fuzz", "*.py"),
    )
    for path in (ROOT / folder).rglob(pattern)
    if path != Path(__file__)
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = {ROOT / "CONTRIBUTING.md"}
"""Documents that quote retired terms as examples."""
STORED_NAME = "__ottla_sink_ledger"
"""A topic name that existing clusters have; it contains a retired term."""

RETIRED = {
    "told": "notified, reported, returned",
    "whoever": "the client, the caller",
    "nobody": "no client, no caller",
    "somebody": "a client, a user",
    "he": "the client, the request",
    "his": "its",
    "him": "it",
    "lane": "fast path",
    "ledger": "commit log, checker",
    "misfortune": "error",
    "whose fault": "the cause",
    "sober": "correct",
    "doomed": "to be deleted",
    "patience": "timeout",
    "stand-in": "fake, stub",
    "all the same": "nevertheless, or nothing",
    "no use": "not useful, or rewrite",
}


@pytest.mark.parametrize("term", RETIRED)
def test_a_retired_term_is_not_used(term: str) -> None:
    """In text and in identifiers, where the words of a name are separated by underscores."""
    words = term.replace(" ", "[ _]")
    pattern = re.compile(rf"(?<![a-z0-9-]){words}(?![a-z0-9-])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in (*SOURCES, *(each for each in DOCUMENTS if each not in EXAMPLES))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line.replace(STORED_NAME, ""))
    ]
    assert found == [], f"write instead: {RETIRED[term]}"


def test_the_glossary_defines_a_term_once() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "GLOSSARY.md").read_text(), re.MULTILINE)
    named = [term.strip() for term in terms if term.strip() not in ("term", "---")]
    assert len(named) > 40
    assert sorted(named) == sorted(set(named))
