"""The Python that Spark starts its workers with: the one that runs the driver, unless the user has chosen another.

Spark starts workers with `PYSPARK_PYTHON`, or with the `python3` that is found on the PATH. A script that is run as
`.venv/bin/python script.py`, without activating the environment, finds another `python3` there, one without Ottla,
and fails with "No module named 'ottla'". So `import ottla.spark` sets the variables if `python3` on the PATH is not
the running Python. Java reads them when it starts: import `ottla.spark` before you create the session. `register` does
the same for a local session that was created before.

Nothing is changed if a variable is set, or under `spark-submit`, where the Python of a cluster is configured. If the
workers do not have Ottla then, `register` raises `WrongWorkerPython`, which describes what to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError

WORKERS: Final = "PYSPARK_PYTHON"
DRIVER: Final = "PYSPARK_DRIVER_PYTHON"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the script that it starts."""
_FIND: Final = "from importlib.util import find_spec; import sys; sys.exit(find_spec('ottla') is None)"
_FIND_S_MAX: Final = 30


class WrongWorkerPython(LocalError):
    """The Python of Spark's workers does not have Ottla."""


def set_variables() -> None:
    """Set the variables for a Java process that is started later."""
    if WORKERS in os.environ or _SUBMITTED in os.environ or _is_running_python(shutil.which("python3")):
        return
    os.environ[WORKERS] = sys.executable
    os.environ.setdefault(DRIVER, sys.executable)


def set_for_local_session() -> None:
    """Change the Python of the running session's workers, if they run on this machine."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or not (context.master or "").startswith("local") or _SUBMITTED in os.environ:
        return
    if context.pythonExec == "python3" and not _is_running_python(shutil.which("python3")):
        context.pythonExec = sys.executable


def check_local_session() -> None:
    """Raise `WrongWorkerPython` if the workers of the running session, on this machine, do not have Ottla."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or not (context.master or "").startswith("local"):
        return
    program = shutil.which(context.pythonExec) or context.pythonExec
    if _is_running_python(program) or _has_ottla(program):
        return
    raise WrongWorkerPython(
        f"Spark starts its Python workers with {program}, which does not have ottla. Set {WORKERS}={sys.executable} "
        "before the session is created, or activate the environment that has ottla"
    )


def _has_ottla(program: str) -> bool:
    """Whether the Python finds Ottla; also True if it cannot be started, which Spark reports."""
    try:
        ran = subprocess.run([program, "-c", _FIND], capture_output=True, timeout=_FIND_S_MAX, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return True
    return ran.returncode == 0


def _is_running_python(program: str | None) -> bool:
    """Whether the program is the running Python in the same environment."""
    if program is None:
        return False
    found, running = Path(program), Path(sys.executable)
    return found.parent.resolve() == running.parent.resolve() and found.resolve() == running.resolve()
