"""A script that is run by the Python of an environment that is not activated."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
{before}
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
{after}
options = {{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "columns": "offset"}}
columns = spark.read.format("ottla").options(**options).load().columns
python = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).first()
print(json.dumps([columns, python]))
"""


CHOSEN = """
import sys
import ottla.spark
from ottla.base.errors import LocalError
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
try:
    ottla.spark.register(spark)
except LocalError as error:
    print(error)
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_a_chosen_python_without_ottla_is_reported_in_one_message(tmp_path: Path) -> None:
    """`PYSPARK_PYTHON` names a Python that has nothing installed: only the user can change that."""
    (tmp_path / "script.py").write_text(CHOSEN)
    bare = tmp_path / "python3"
    bare.symlink_to(Path(sys.executable).resolve())
    environment = {**os.environ, "PYSPARK_PYTHON": str(bare), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    last = ran.stdout.splitlines()[-1]
    assert last.startswith(f"Spark starts its Python workers with {bare}, which does not have ottla.")
    assert f"Set PYSPARK_PYTHON={sys.executable}" in last


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.parametrize(
    ("before", "after"),
    [("import ottla.spark", ""), ("", "import ottla.spark; ottla.spark.register(spark)")],
    ids=["imported before the session", "registered in a running session"],
)
def test_workers_run_the_python_of_the_script(tmp_path: Path, before: str, after: str) -> None:
    """The PATH has a `python3` without Ottla, as in a terminal where no environment is active."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (tmp_path / "script.py").write_text(SCRIPT.format(before=before, after=after))
    hidden = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH", "PYSPARK_GATEWAY_PORT"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    java = Path(shutil.which("java") or "").parent
    environment |= {"PATH": f"{tmp_path / 'bin'}:{java}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(tmp_path / "script.py")]
    ran = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == [["offset"], sys.executable]
