"""The Python that Spark starts its workers with: the one that runs the driver, unless the user has chosen another.

Spark starts workers with `PYSPARK_PYTHON`, or with the `python3` that is found on the PATH. A script that is run as
`.venv/bin/python script.py`, without activating the environment, finds another `python3` there, one without Ottla,
and fails with "No module named 'ottla'". So `import ottla.spark` sets the variables if `python3` on the PATH is not
the running Python. Java reads them when it starts: import `ottla.spark` before you create the session. `register` does
the same for a local session that was created before.

Nothing is changed if a variable is set, or under `spark-submit`, where the Python of a cluster is configured.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

WORKERS: Final = "PYSPARK_PYTHON"
DRIVER: Final = "PYSPARK_DRIVER_PYTHON"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the script that it starts."""


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


def _is_running_python(program: str | None) -> bool:
    """Whether the program is the running Python in the same environment."""
    if program is None:
        return False
    found, running = Path(program), Path(sys.executable)
    return found.parent.resolve() == running.parent.resolve() and found.resolve() == running.resolve()
