"""Write docs/FILES.md: every module of `src/ottla/` with the first sentence of its docstring.

python tools/file_map.py          writes the page
python tools/file_map.py --check  fails if the page is out of date
"""

from __future__ import annotations

import ast
import re
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ottla"
PAGE = ROOT / "docs" / "FILES.md"

INTRODUCTION = """# File map

Written by `tools/file_map.py` from the docstrings of the modules below `src/ottla/`; edit those, not this page.
[DESIGN.md](DESIGN.md) describes the layers and how requests pass through them.
"""
_SENTENCE_END = re.compile(r"(?<=[.:;?!])\s")
_PYX_DOCSTRING = re.compile(r'^(?:#[^\n]*\n|\s)*"""(.*?)"""', re.DOTALL)


def page() -> str:
    """The whole text of the page."""
    parts = [INTRODUCTION]
    for folder, paths in groupby(modules(), key=lambda path: path.parent):
        title = folder.relative_to(PACKAGE).as_posix()
        rows = [f"| `{path.name}` | {summary(path)} |" for path in paths]
        parts.append(
            "\n".join([f"## {'ottla' if title == '.' else title}", "", "| file | |", "|---|---|", *rows, ""])
        )
    return "\n".join(parts)


def modules() -> list[Path]:
    """All sources that contain something, by folder; declarations of messages are one row each in their folder."""
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]
    kept = (path for path in sources if path.name != "__init__.py" or path.read_text().strip())
    return sorted(kept, key=lambda path: (path.parent, path.name))


def summary(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    if path.suffix == ".pyx":
        found = _PYX_DOCSTRING.match(path.read_text())
        docstring = found.group(1) if found else ""
    else:
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(docstring.strip().partition("\n\n")[0].split())
    return _SENTENCE_END.split(paragraph)[0].rstrip(":;.").replace("|", "\\|")


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" in arguments:
        return int(not PAGE.exists() or PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
