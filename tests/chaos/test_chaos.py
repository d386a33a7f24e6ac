"""The parts of `make chaos`: what a power failure may take, how a pause is measured; and a short run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.faults import Plan
from tests.chaos.power_failure import FileState, PowerFailures, durable
from tests.chaos.run import Chaos
from tests.chaos.summary import pause_around
from tests.support.faults import needs_compiler


def test_what_is_durable_follows_the_calls() -> None:
    trace = [
        "create\tb/t-0/0.log\t",
        "write\tb/t-0/0.log\t100",
        "write+sync\tb/t-0/0.log\t150",
        "write\tb/t-0/0.log\t400",
        "write+sync\tearlier.log\t30",
        "create\tb/x.log\t",
        "sync\tb/t-0\t4096",
    ]
    assert durable(trace, {"earlier.log": 20}) == {
        "earlier.log": FileState(30, named=True),
        "b/t-0/0.log": FileState(150, named=True),
        "b/x.log": FileState(0, named=False),
    }


def test_truncation_renames_and_removals_are_followed() -> None:
    trace = [
        "create\ta/0.log\t",
        "write+sync\ta/0.log\t100",
        "truncate\ta/0.log\t60",
        "rename\ta\tb",
        "create\tc.log\t",
        "remove\tc.log\t",
        "create\td.log\t",
        "sync-all\t.\t4096",
    ]
    found = durable(trace, {})
    assert found.keys() == {"b/0.log", "d.log"}
    assert all(state.named for state in found.values())


@needs_compiler
def test_a_power_failure_keeps_what_was_synced(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    failures = PowerFailures(tmp_path, root)
    log = root / "0.log"
    kept = set()
    for seed in range(40):
        log.write_bytes(b"s" * 100 + b"u" * 50)
        trace = "create\t0.log\t\nwrite+sync\t0.log\t100\nsync\t.\t1\nwrite\t0.log\t150\n"
        (tmp_path / "trace").write_text(trace)
        failures.apply(random.Random(seed))
        found = log.read_bytes()
        assert found[:100] == b"s" * 100
        kept.add(found[100:])
        (tmp_path / "trace").write_text("write\t0.log\t1000\n")
        log.write_bytes(found + b"more")
        failures.apply(random.Random(seed))
        assert log.read_bytes()[: len(found)] == found, "what survived the first failure is synced"
    assert len(kept) > 10
    assert failures.bytes_lost > 0


def test_a_pause_is_the_longest_gap_from_the_last_acknowledgement_before_a_fault() -> None:
    assert pause_around([1.0, 1.1, 3.0, 3.1, 9.0], 1.15, 3.0) == pytest.approx(1.9)
    assert pause_around([1.0, 1.2, 4.0], 1.15, 3.0) == pytest.approx(2.8), "acknowledged before the death"
    assert pause_around([1.0], 1.15, 3.0) is None


@pytest.mark.torture
@needs_compiler
def test_a_short_chaos_run_finds_no_anomaly(tmp_path: Path) -> None:
    summary = Chaos(Plan(brokers=3, kills=3, power=1, pauses=1, network=2, seed=7), tmp_path).run()
    assert summary.anomalies == []
