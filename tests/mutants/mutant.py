"""A mutant: a patch with a head that names the rule it breaks and the judges that must notice.

    rule: a commit of an old generation is refused
    judge: tests/unit/coordinator/group         tests, by path
    judge: sim                                  the simulation

    --- a/src/...                               a unified diff with little context

Judges are asked in their order until one objects.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Mutant:
    path: Path
    rule: str
    judges: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    def apply(self, tree: Path, *, check: bool = False, reverse: bool = False) -> None:
        """Change a tree; CalledProcessError if the patch does not fit any more. `check` only asks."""
        options = ["--check"] * check + ["--reverse"] * reverse
        subprocess.run(
            ["git", "apply", "-C1", *options, str(self.path)],
            cwd=tree,
            check=True,
            capture_output=True,
            text=True,
        )


def load(path: Path) -> Mutant:
    fields: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if not line:
            break
        name, _, value = line.partition(": ")
        fields.setdefault(name, []).append(value)
    return Mutant(path, fields["rule"][0], tuple(fields["judge"]))


def load_all() -> list[Mutant]:
    return [load(path) for path in sorted(HERE.glob("*.patch"))]
