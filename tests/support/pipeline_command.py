"""`ottla pipelines run` in processes that end with the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PipelineCommand:
    def __init__(self, state: Path) -> None:
        self.state = state
        self.processes: list[subprocess.Popen[str]] = []

    def __call__(self, what: str, bootstrap: str, *words: str) -> subprocess.Popen[str]:
        """Run the pipeline of a file or module."""
        line = [sys.executable, "-m", "ottla.cli.main", "pipelines", "run", what, "--bootstrap", bootstrap]
        process = subprocess.Popen(
            [*line, "--state", str(self.state), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process


@contextmanager
def pipeline_command(state: Path) -> Iterator[PipelineCommand]:
    command = PipelineCommand(state)
    yield command
    for process in command.processes:
        if process.poll() is None:
            process.kill()
            process.communicate()
        if process.stdout is not None:
            process.stdout.close()
