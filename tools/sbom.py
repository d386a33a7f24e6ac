"""Software bill of materials of a release, in CycloneDX 1.5: what `pip install ottla[...]` brings with it.

    python tools/sbom.py         writes dist/ottla-<version>.cdx.json

Components are the locked versions of the dependencies of the package and of its extras for users, direct and indirect,
with the hashes of `requirements/dev.txt`. The result depends on the tracked files only.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("console", "security", "spark", "testing")
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
Json = dict[str, Any]


def locked(text: str) -> dict[str, tuple[str, list[str]]]:
    """Name to version and hashes, of a lock file."""
    found = {}
    starts = list(_LOCKED.finditer(text))
    for each, following in zip(starts, [*starts[1:], None], strict=True):
        block = text[each.start() : following.start() if following else len(text)]
        found[str(canonicalize_name(each[1]))] = (each[2], _HASH.findall(block))
    return found


def closure(requirements: list[str]) -> dict[str, set[str]]:
    """Every distribution that these requirements install here, with those that it requires itself."""
    tree: dict[str, set[str]] = {}
    pending = [(Requirement(text), "") for text in requirements]
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker and not requirement.marker.evaluate({**default_environment(), "extra": extra}):
            continue
        name = str(canonicalize_name(requirement.name))
        known = name in tree
        needed = tree.setdefault(name, set())
        if known and not requirement.extras:
            continue
        for text in metadata.requires(name) or []:
            inner = Requirement(text)
            for wanted in requirement.extras or {""}:
                marker = inner.marker
                if marker is None or marker.evaluate({**default_environment(), "extra": wanted}):
                    needed.add(str(canonicalize_name(inner.name)))
                    pending.append((inner, wanted))
    return tree


def component(name: str, version: str, hashes: list[str]) -> Json:
    licence = metadata.metadata(name).get("License-Expression")
    made: Json = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
    }
    if licence:
        made["licenses"] = [{"expression": licence}]
    if hashes:
        made["properties"] = [{"name": "ottla:sha256", "value": each} for each in sorted(hashes)]
    return made


def bill(root: Path) -> Json:
    """The bill of the project below `root`."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    tree = closure(wanted)
    versions = locked((root / "requirements" / "dev.txt").read_text())
    refs = {name: f"pkg:pypi/{name}@{versions[name][0]}" for name in tree}
    own = f"pkg:pypi/ottla@{project['version']}"
    direct = sorted({refs[str(canonicalize_name(Requirement(text).name))] for text in wanted})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + ''.join(sorted(refs.values())))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "ottla",
                "version": project["version"],
                "purl": own,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [component(name, *versions[name]) for name in sorted(tree)],
        "dependencies": [
            {"ref": own, "dependsOn": direct},
            *(
                {"ref": refs[name], "dependsOn": sorted(refs[each] for each in tree[name])}
                for name in sorted(tree)
            ),
        ],
    }


def write_sbom(root: Path, folder: Path) -> Path:
    """Write the bill below `folder`."""
    made = bill(root)
    path = folder / f"ottla-{made['metadata']['component']['version']}.cdx.json"
    path.write_text(json.dumps(made, indent=2) + "\n")
    return path


if __name__ == "__main__":
    (ROOT / "dist").mkdir(exist_ok=True)
    sys.stdout.write(f"{write_sbom(ROOT, ROOT / 'dist')}\n")
