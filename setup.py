"""Compiles the native kernels; without a C compiler, or with OTTLA_PURE=1, the package is installed without them.

Each kernel `X.pyx` has a plain-Python reference beside it, which is used when the compiled one is missing.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(Path("src").rglob("*.pyx"))


def extensions() -> list[Extension]:
    if os.environ.get("OTTLA_PURE", "") not in {"", "0"}:
        return []
    modules = [
        Extension(
            ".".join(path.relative_to("src").with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O3"],
            optional=True,
        )
        for path in SOURCES
    ]
    if not modules:
        return []
    from Cython.Build import cythonize

    built: list[Extension] = cythonize(modules, language_level=3)
    for extension in built:
        extension.optional = True
    return built


setup(ext_modules=extensions())
