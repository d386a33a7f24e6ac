"""Lock the versions and hashes of everything that development installs: `make lock`.

Writes `requirements/dev.txt`. pip resolves the requirements of pyproject.toml, without installing anything. The
hashes are those of all files of each version in the package index, so the lock is valid on every platform. `make
setup` installs exactly these versions: pip refuses a download whose hash is not listed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "dev.txt"
HEADER = """\
# Versions and hashes of everything that `make setup` installs. Written by tools/lock.py (make lock); do not edit.
"""
_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
_FILE = re.compile(r"#sha256=([0-9a-f]{64})\"[^>]*>([^<]+)</a>")


def wanted() -> list[str]:
    """The requirements of the package, of its build and of the extra `dev`, which includes other extras."""
    values = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = values["project"]["optional-dependencies"]
    found = [*values["build-system"]["requires"], *values["project"]["dependencies"]]
    for each in extras["dev"]:
        if each.startswith("ottla["):
            found += [one for name in each[6:].rstrip("]").split(",") for one in extras[name]]
        else:
            found.append(each)
    return found


def resolve(requirements: list[str]) -> dict[str, str]:
    """Name to version of everything that pip would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    ran = subprocess.run([*command, "--report", "-", *requirements], check=True, stdout=subprocess.PIPE)
    report = json.loads(ran.stdout)
    return {each["metadata"]["name"].lower(): each["metadata"]["version"] for each in report["install"]}


def hashes(index: str, name: str, version: str) -> list[str]:
    """The SHA-256 of every file of a version."""
    page = urljoin(index, f"{name.replace('_', '-').replace('.', '-')}/")
    with urllib.request.urlopen(page) as response:
        files = _FILE.findall(response.read().decode())
    return sorted(digest for digest, file in files if _version(file) == Version(version))


def _version(file: str) -> Version | None:
    """The version in the name of a wheel or an sdist; None for other files."""
    try:
        return parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def main() -> int:
    ran = subprocess.run([sys.executable, "-c", _INDEX], check=True, capture_output=True, text=True)
    index = ran.stdout.strip().rstrip("/") + "/"
    lines = [HEADER]
    for name, version in sorted(resolve(wanted()).items()):
        known = hashes(index, name, version)
        if not known:
            raise SystemExit(f"the index lists no file of {name} {version}")
        lines.append(
            " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in known)]) + "\n"
        )
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.write_text("".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
