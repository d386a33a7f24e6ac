"""Write docs/STATE_MACHINES.md: a diagram of every table of transitions that the code holds.

python tools/diagrams.py          writes the page
python tools/diagrams.py --check  fails if the page is out of date

A table is found by living in a module named `transitions` of a coordinator.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import ottla.coordinator
from ottla.coordinator.runtime import transitions
from ottla.coordinator.runtime.transitions import Transitions

PAGE = Path(__file__).parents[1] / "docs" / "STATE_MACHINES.md"

INTRODUCTION = """# State machines

Written by `tools/diagrams.py` from the tables of transitions in `src/ottla/coordinator/`; edit those, not this
page. A machine that makes a move which its table does not have is a bug of ours and stops.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for module in _modules():
        for table in _tables(module):
            parts.append(_section(module, table))
    return "\n".join(parts)


def _modules() -> Iterator[ModuleType]:
    package = ottla.coordinator
    for found in sorted(
        pkgutil.walk_packages(package.__path__, f"{package.__name__}."), key=lambda each: each.name
    ):
        if found.name.endswith(".transitions") and found.name != transitions.__name__:
            yield import_module(found.name)


def _tables(module: ModuleType) -> Iterator[Transitions[Any]]:
    return (each for each in vars(module).values() if isinstance(each, Transitions))


def _section(module: ModuleType, table: Transitions[Any]) -> str:
    source = "src/" + module.__name__.replace(".", "/") + ".py"
    title = table.name[0].upper() + table.name[1:]
    lines = [f"## {title}", "", f"`{source}`", ""]
    about = vars(table.states).get("__doc__")
    if about:
        lines += [inspect.cleandoc(about), ""]
    lines += ["```mermaid", "stateDiagram-v2", f"    [*] --> {_name(table.start)}"]
    for before in table.states:
        for after in table.states:
            events = table.events(before, after)
            if events:
                lines.append(f"    {_name(before)} --> {_name(after)}: {' / '.join(events)}")
    lines += ["```", "", "| event | from | to |", "|---|---|---|"]
    for move in table.moves:
        lines.append(f"| {move.event} | {', '.join(map(_name, move.sources))} | {_name(move.target)} |")
    return "\n".join(lines) + "\n"


def _name(state: Enum) -> str:
    """The name clients know, where the states carry it; else the name in the code, in the same style."""
    return state.value if isinstance(state.value, str) else state.name.title().replace("_", "")


def main(arguments: list[str]) -> int:
    text = page()
    if arguments == ["--check"]:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
