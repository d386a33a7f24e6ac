"""A pipeline in a process of its own: started with `ottla pipelines run --json`, followed by what it prints.

It has a session of its own, so that Ctrl-C in the terminal reaches us alone and the pipeline ends when we say so.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from ottla.pipelines.progress import RunProgress

STOP_S_MAX = 30.0


def undisturbed(action: Callable[[], None]) -> None:
    """Does something to its end though a signal's handler raises meanwhile: handlers run in the main thread only."""
    with ThreadPoolExecutor(1) as other:
        other.submit(action).result()


class PipelineProcess:
    """One run. Use it as a context manager; `progress` is the newest, None while it starts."""

    def __init__(self, what: str, bootstrap: str, state: Path, master: str) -> None:
        self._command = [sys.executable, "-m", "ottla.cli.main", "pipelines", "run", what, "--json"]
        self._command += ["--bootstrap", bootstrap, "--state", str(state), "--master", master]
        self._errors = state.parent / f"{state.name}.err"
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.progress: RunProgress | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def troubles(self) -> dict[str, str]:
        """What is wrong with which flow, while it tries again."""
        flows = self.progress.flows if self.progress is not None else {}
        return {name: flow.error for name, flow in flows.items() if flow.error}

    def errors(self) -> str:
        """What it has to say about its end."""
        return self._errors.read_text(errors="replace").strip() if self._errors.exists() else ""

    def runs(self, flow: str) -> bool:
        """Whether the flow's query is under way."""
        found = self.progress.flows.get(flow) if self.progress is not None else None
        return found is not None and found.state == "running"

    def __enter__(self) -> PipelineProcess:
        self._errors.parent.mkdir(parents=True, exist_ok=True)
        try:
            undisturbed(self._launch)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _launch(self) -> None:
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def __exit__(self, *_: object) -> None:
        if self._process is None or self._reader is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_S_MAX)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            return
        with process.stdout as told:
            for line in told:
                if line.startswith(b"{"):
                    with suppress(msgspec.MsgspecError):  # cut off by the end of the process
                        self.progress = msgspec.json.decode(line, type=RunProgress)
