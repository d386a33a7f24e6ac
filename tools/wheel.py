"""Build the sdist and the wheels below `dist`, and test each wheel in an empty environment: `make wheel`.

Everything is built from the files that git tracks, and the wheels from the sdist, so that nothing of the working tree
gets into them. There is one wheel without compiled kernels for all Pythons, and one with them for each Python from 3.11
to 3.13 that is found on the PATH or in pyenv. `--no-smoke` omits the tests. An SBOM of the release is written beside
them.

The files depend on the tracked files, the compiler and setuptools only, not on the time, the user or the folder of the
build: all times in them are that of the last commit. `--twice` builds everything a second time in another folder and
compares the bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sbom import write_sbom

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13")
FORBIDDEN = (".pyx", ".pxd", ".c", ".cpp")
BUILD = "from setuptools import build_meta; print(build_meta.build_sdist({!r}))"
SMOKE = ROOT / "tools" / "wheel_smoke.py"


def main(arguments: list[str]) -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    wheels = build(DIST)
    say(f"SBOM: {write_sbom(ROOT, DIST).name}")
    if "--twice" in arguments:
        with tempfile.TemporaryDirectory() as folder:
            compare(DIST, wheels, Path(folder, "again"))
    if "--no-smoke" not in arguments:
        for python, wheel in wheels:
            smoke(python, wheel)
            say(f"works in an empty environment: {wheel.name}")
    return 0


def build(dist: Path) -> list[tuple[Path, Path]]:
    """The sdist and all wheels; returns the wheels, each with the Python to test it with."""
    dist.mkdir(parents=True)
    sdist = build_sdist(dist)
    say(f"sdist: {sdist.name}")
    pure = build_wheel(Path(sys.executable), sdist, dist, kernels=False)
    check_content(pure, kernels=False)
    say(f"wheel without kernels: {pure.name}")
    made = [(Path(sys.executable), pure)]
    for python in pythons():
        wheel = build_wheel(python, sdist, dist, kernels=True)
        check_content(wheel, kernels=True)
        say(f"wheel with kernels: {wheel.name}")
        made.append((python, wheel))
    return made


def compare(dist: Path, wheels: list[tuple[Path, Path]], again: Path) -> None:
    """Build everything again, and raise if a file differs."""
    build(again)
    for first in [*dist.glob("*.tar.gz"), *(wheel for _, wheel in wheels)]:
        digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, again / first.name)}
        if len(digests) > 1:
            raise SystemExit(f"{first.name}: the second build differs")
        say(f"byte-equal in two builds: {first.name} sha256 {digests.pop()}")


def commit_time() -> int:
    """The time of the last commit, in seconds since 1970."""
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def build_sdist(dist: Path) -> Path:
    """The sdist, from a copy of the tracked files."""
    with tempfile.TemporaryDirectory() as folder:
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            if (ROOT / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        subprocess.run(
            [sys.executable, "-c", BUILD.format(str(dist))], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
    (made,) = dist.glob("*.tar.gz")
    normalize(made)
    return made


def normalize(sdist: Path) -> None:
    """Sort the members of an sdist, and replace their owners, modes and times."""
    with tarfile.open(sdist) as archive:
        files = sorted((each for each in archive if each.isfile()), key=lambda each: each.name)
        contents = [archive.extractfile(each) for each in files]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target:
            for file, content in zip(files, contents, strict=True):
                member = tarfile.TarInfo(file.name)
                member.size, member.mtime = file.size, commit_time()
                member.mode = 0o755 if file.mode & 0o100 else 0o644
                target.addfile(member, content)
    with sdist.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as compressed:
        compressed.write(packed.getvalue())


def build_wheel(python: Path, sdist: Path, dist: Path, *, kernels: bool) -> Path:
    """A wheel from the sdist, built by pip in an isolated environment."""
    before = set(dist.glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        subprocess.run(
            [
                str(python),
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--wheel-dir",
                str(dist),
                str(source),
            ],
            env=build_environment(source, kernels=kernels),
            check=True,
        )
    (made,) = set(dist.glob("*.whl")) - before
    return made


def build_environment(source: Path, *, kernels: bool) -> dict[str, str]:
    """Variables for a build whose result does not depend on the folder, the time or the hash seed."""
    return {
        **os.environ,
        "OTTLA_PURE": "0" if kernels else "1",
        "SOURCE_DATE_EPOCH": str(commit_time()),
        "PYTHONHASHSEED": "0",
        "CFLAGS": f"-g0 -ffile-prefix-map={source}=.",
    }


def check_content(wheel: Path, *, kernels: bool) -> None:
    """Raise if the wheel has sources of kernels, or has or lacks compiled ones."""
    names = zipfile.ZipFile(wheel).namelist()
    if sources := [name for name in names if name.endswith(FORBIDDEN)]:
        raise SystemExit(f"{wheel.name} contains sources of kernels: {', '.join(sources)}")
    if kernels != any(name.endswith(".so") for name in names):
        raise SystemExit(
            f"{wheel.name}: compiled kernels {'missing' if kernels else 'in a wheel without kernels'}"
        )
    for needed in ("ottla/py.typed", "ottla/cli/main.py", "pyspark_ottla/__init__.py"):
        if needed not in names:
            raise SystemExit(f"{wheel.name} lacks {needed}")


def smoke(python: Path, wheel: Path) -> None:
    """Install the wheel and nothing else, and follow the README."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        subprocess.run([str(python), "-m", "venv", str(environment)], check=True)
        run = str(environment / "bin" / "python")
        subprocess.run([run, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        kernels = "0" if wheel.name.endswith("none-any.whl") else "1"
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OTTLA"))
        }
        subprocess.run([run, str(SMOKE), kernels], cwd=folder, env=clean, check=True)


def pythons() -> Iterator[Path]:
    """One interpreter of each supported version that exists here."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in VERSIONS:
        found = shutil.which(f"python{version}")
        candidates = [Path(found)] if found else []
        candidates += sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            candidates.insert(0, Path(sys.executable))
        yield from [each for each in candidates if works(each, version)][:1]


def works(python: Path, version: str) -> bool:
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return ran.returncode == 0 and ran.stdout.strip() == version


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
