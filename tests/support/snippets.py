"""The fenced blocks of the documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):9092")


@dataclass(frozen=True)
class Block:
    """One block: its document, line, language and text."""

    document: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        """The first line, which identifies a block in its document."""
        return self.text.splitlines()[0].strip() if self.text.strip() else ""

    def on(self, bootstrap: str) -> str:
        """The text with another address of the broker."""
        return _ADDRESS.sub(bootstrap, self.text)


def documents() -> list[Path]:
    """README, CONTRIBUTING and all pages of the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [
        Block(path.name, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in _BLOCK.finditer(text)
    ]
