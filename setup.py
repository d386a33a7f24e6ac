"""Compiles the native kernels, and the modules of the request path. Without a C compiler, or with OTTLA_PURE=1, the
package is installed without both.

Each kernel `X.pyx` has a plain-Python reference beside it, which is used when the compiled one is missing. The modules
that `pyproject.toml` lists below `tool.ottla` are compiled by mypyc as they are; `ottla.base.compiled` says which
processes use them, and when.
"""

import ast
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src")
PACKAGE = SOURCE / "ottla"
KERNELS = sorted(SOURCE.rglob("*.pyx"))
LIBRARY = "ottla__mypyc"

sys.path.insert(0, str(SOURCE))
from ottla.base import compiled, native  # noqa: E402 - of this folder


def kernels() -> list[Extension]:
    if not native.WANTED:
        return []
    modules = [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O3"],
            optional=True,
        )
        for path in KERNELS
    ]
    if not modules:
        return []
    from Cython.Build import cythonize

    built: list[Extension] = cythonize(modules, language_level=3)
    for extension in built:
        extension.optional = True
    return built


class BuildExtensions(build_ext):
    """Compiles the kernels, and then the modules of the request path."""

    def run(self) -> None:
        super().run()
        target = (PACKAGE if self.inplace else Path(self.build_lib, "ottla")) / compiled.FOLDER
        try:
            compile_modules(target)
        except (Exception, SystemExit) as problem:  # mypyc ends the process if it finds an error
            shutil.rmtree(target, ignore_errors=True)
            self.warn(f"the modules of the request path are not compiled: {problem}")


def compile_modules(target: Path) -> None:
    """Compile the modules into `target`, unless what is there belongs to the sources."""
    paths = modules()
    names = {module_name(path) for path in paths} | {LIBRARY}
    if compiled.current_extensions(str(target.parent)).keys() == names:
        return
    import mypyc
    from mypyc.build import mypycify

    shutil.rmtree(target, ignore_errors=True)
    with TemporaryDirectory() as folder:
        # What `make check` finds is no reason not to compile, in particular where packages without types are missing.
        options = ["--config-file", "pyproject.toml", "--cache-dir", os.devnull]
        options += ["--no-warn-return-any", "--no-warn-unused-ignores", "--allow-subclassing-any"]
        extensions = mypycify(
            [*options, *map(str, paths)],
            opt_level="1",  # higher levels take twice as long, and the result is not faster
            debug_level="0",
            group_name="ottla",
            target_dir=str(Path(folder, "c")),
        )
        # The library has the names of its C files: they must not depend on the folders of the build.
        for extension in extensions:
            for directory in (folder, str(Path(mypyc.__file__).parent)):
                extension.extra_compile_args.append(f"-ffile-prefix-map={directory}=.")
        command = build_ext(Distribution({"ext_modules": extensions}))
        command.build_lib = str(Path(folder, "lib"))
        command.build_temp = str(Path(folder, "temp"))
        command.ensure_finalized()
        command.run()
        target.mkdir(parents=True)
        for name in names:
            made = Path(command.get_ext_fullpath(name))
            shutil.copyfile(made, compiled.extension_file(str(target), name))
    sources = {path.relative_to(PACKAGE).as_posix() for path in read_sources(paths)}
    compiled.write_manifest(str(PACKAGE), str(target), names, sources)


def modules() -> list[Path]:
    """The modules that `pyproject.toml` lists."""
    with Path("pyproject.toml").open("rb") as file:
        patterns = tomllib.load(file)["tool"]["ottla"]["compiled"]
    found = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    return sorted(path for path in found if path.name != "__init__.py")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def read_sources(paths: list[Path]) -> set[Path]:
    """These modules and all that they import, directly or not: what the compiler reads."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imported(path))
    return found


def imported(path: Path) -> Iterator[Path]:
    """The files of the package that a module imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("ottla."):
                base = SOURCE.joinpath(*name.split("."))
                files = base.with_suffix(".py"), base.with_suffix(".pyi"), base / "__init__.py"
                yield from (each for each in files if each.is_file())


setup(ext_modules=kernels(), cmdclass={"build_ext": BuildExtensions})
