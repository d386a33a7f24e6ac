"""Commands for a running `ottla up` that are passed as files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.local.control import ControlInbox, ControlRequest, read_states, send
from tests.support.waiting import wait_until


def serve(inbox: ControlInbox, response: Callable[[ControlRequest], tuple[str, bool]]) -> threading.Thread:
    """Respond to one command."""

    def run() -> None:
        seen: list[ControlRequest] = []
        wait_until(lambda: bool(seen.extend(inbox.requests()) or seen), "a command")
        inbox.respond(seen[0], *response(seen[0]))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_command_is_performed_and_its_result_returned(tmp_path: Path) -> None:
    with ControlInbox(tmp_path) as inbox:
        thread = serve(inbox, lambda request: (f"{request.action} {request.broker}", True))
        assert send(tmp_path, "kill", 2) == "kill 2"
        thread.join()
        assert [each.name for each in (tmp_path / "control").iterdir()] == ["pid"]


def test_a_refusal_is_raised(tmp_path: Path) -> None:
    with ControlInbox(tmp_path) as inbox:
        thread = serve(inbox, lambda _: ("does not run", False))
        with pytest.raises(LocalError, match="does not run"):
            send(tmp_path, "kill", 2)
        thread.join()


def test_without_a_running_cluster_nothing_is_sent(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="`ottla up` does not run"):
        send(tmp_path, "kill", 0)
    with ControlInbox(tmp_path):
        pass
    with pytest.raises(LocalError, match="`ottla up` does not run"):
        send(tmp_path, "kill", 0)
    with pytest.raises(LocalError, match="the action can be"):
        send(tmp_path, "format", 0)


def test_a_command_without_a_response_is_withdrawn(tmp_path: Path) -> None:
    with ControlInbox(tmp_path) as inbox:
        with pytest.raises(LocalError, match="did not respond"):
            send(tmp_path, "kill", 0, timeout_s=0.1)
        assert list(inbox.requests()) == []


def test_files_of_an_earlier_process_and_invalid_ones_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "control"
    folder.mkdir()
    (folder / "old.request").write_text('{"action": "kill", "broker": 0}')
    with ControlInbox(tmp_path) as inbox:
        (folder / "bad.request").write_text("[]")
        assert list(inbox.requests()) == []
        assert not (folder / "bad.request").exists()


def test_states_are_read_while_the_cluster_runs(tmp_path: Path) -> None:
    assert read_states(tmp_path) == {}
    with ControlInbox(tmp_path) as inbox:
        assert read_states(tmp_path) == {}, "not published yet"
        inbox.publish_states({0: "running", 1: "paused"})
        assert read_states(tmp_path) == {0: "running", 1: "paused"}
        inbox.publish_states({0: "running", 1: "running"})
        assert read_states(tmp_path) == {0: "running", 1: "running"}
    assert read_states(tmp_path) == {}
