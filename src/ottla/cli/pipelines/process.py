"""A pipeline in a child process: starts `ottla pipelines run --json` and reads the progress that it prints.

The child has its own session, so that Ctrl-C in the terminal is sent to the parent only, which then stops the child.
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


def run_uninterrupted(action: Callable[[], None]) -> None:
    """Run the action to its end even if a signal handler raises: handlers run in the main thread only."""
    with ThreadPoolExecutor(1) as other:
        other.submit(action).result()


class PipelineProcess:
    """One run, as a context manager. `progress` is the last report, None before the first one."""

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

    def flow_errors(self) -> dict[str, str]:
        """The errors of flows that are being restarted, by flow."""
        flows = self.progress.flows if self.progress is not None else {}
        return {name: flow.error for name, flow in flows.items() if flow.error}

    def errors(self) -> str:
        """What the process has written to its standard error."""
        return self._errors.read_text(errors="replace").strip() if self._errors.exists() else ""

    def runs(self, flow: str) -> bool:
        """Whether the query of the flow is running."""
        found = self.progress.flows.get(flow) if self.progress is not None else None
        return found is not None and found.state == "running"

    def __enter__(self) -> PipelineProcess:
        self._errors.parent.mkdir(parents=True, exist_ok=True)
        try:
            run_uninterrupted(self._launch)
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
        with process.stdout as lines:
            for line in lines:
                if line.startswith(b"{"):
                    with suppress(msgspec.MsgspecError):  # a line that the end of the process has truncated
                        self.progress = msgspec.json.decode(line, type=RunProgress)
