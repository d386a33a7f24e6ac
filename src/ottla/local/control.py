"""Commands for the brokers of a running `ottla up`, from other processes of the same user.

A command is a file in the directory of the cluster: `control/ID.request` with JSON `{"action": ..., "broker": ...}`.
The process of `ottla up` performs it, since the brokers are its children, and writes `control/ID.response`. Files are
written under another name and renamed, so they are read complete. `control/pid` is the process that reads commands;
`control/states` has the states of the broker processes as JSON, written when one has changed.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ottla.base.errors import LocalError

ACTIONS = ("kill", "stop", "pause", "resume", "restart")
_FOLDER = "control"
_PID = "pid"
_STATES = "states"
_CHECK_INTERVAL_S = 0.02


@dataclass(frozen=True)
class ControlRequest:
    """A command that has arrived."""

    id: str
    action: str
    broker: int


class ControlInbox:
    """The commands that arrive at `ottla up`. Use it as a context manager; not thread-safe."""

    def __init__(self, data: Path) -> None:
        self._folder = data / _FOLDER
        self._states: dict[int, str] = {}

    def __enter__(self) -> ControlInbox:
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob("*.*"):
            left.unlink(missing_ok=True)
        _write(self._folder / _PID, str(os.getpid()))
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            (self._folder / _PID).unlink()
            (self._folder / _STATES).unlink(missing_ok=True)

    def requests(self) -> Iterator[ControlRequest]:
        """The commands that have arrived; each is returned once."""
        for path in sorted(self._folder.glob("*.request")):
            try:
                given = json.loads(path.read_text())
                found = ControlRequest(path.stem, str(given["action"]), int(given["broker"]))
            except (OSError, ValueError, KeyError, TypeError):
                found = None
            path.unlink(missing_ok=True)
            if found is not None:
                yield found

    def respond(self, request: ControlRequest, text: str, done: bool) -> None:
        """Report the result of a command."""
        with suppress(OSError):
            _write(self._folder / f"{request.id}.response", json.dumps({"text": text, "done": done}))

    def publish_states(self, states: Mapping[int, str]) -> None:
        """Let other processes read the states of the broker processes."""
        if states != self._states:
            with suppress(OSError):
                _write(self._folder / _STATES, json.dumps(states))
                self._states = dict(states)


def read_states(data: Path) -> dict[int, str]:
    """The states of the broker processes of a running `ottla up`; empty if it does not run."""
    folder = data / _FOLDER
    if not _is_running(folder / _PID):
        return {}
    try:
        return {
            int(node_id): str(state) for node_id, state in json.loads((folder / _STATES).read_text()).items()
        }
    except (OSError, ValueError, AttributeError):
        return {}


def send(data: Path, action: str, broker: int, *, timeout_s: float = 10.0) -> str:
    """Have `ottla up` perform a command; return its result. Raise LocalError if it is refused or not performed."""
    if action not in ACTIONS:
        raise LocalError(f"the action can be {', '.join(ACTIONS)}, not {action}")
    folder = data / _FOLDER
    if not _is_running(folder / _PID):
        raise LocalError(f"`ottla up` does not run with the directory {data}")
    name = uuid.uuid4().hex
    request, response = folder / f"{name}.request", folder / f"{name}.response"
    _write(request, json.dumps({"action": action, "broker": broker}))
    pause = threading.Event()
    for _ in range(int(timeout_s / _CHECK_INTERVAL_S)):
        if response.exists():
            result = json.loads(response.read_text())
            response.unlink(missing_ok=True)
            if not result["done"]:
                raise LocalError(str(result["text"]))
            return str(result["text"])
        pause.wait(_CHECK_INTERVAL_S)
    request.unlink(missing_ok=True)
    raise LocalError(f"`ottla up` did not respond within {timeout_s:g} s")


def _is_running(path: Path) -> bool:
    try:
        os.kill(int(path.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def _write(path: Path, text: str) -> None:
    made = path.with_name(f"{path.name}.new")
    made.write_text(text)
    made.replace(path)
