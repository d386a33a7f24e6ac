"""The jobs of a log beside its writes."""

from __future__ import annotations

from ottla.base.rng import Random
from ottla.storage.log.log_config import LogConfig
from ottla.testing.disk import SimDisk
from tests.support.logs import NOW_MS, append, batch, open_at


def test_a_log_is_idle_when_all_jobs_are_finished() -> None:
    log = open_at(SimDisk(Random(1)), "/data/topic-0", LogConfig(segment_bytes=150, flush_messages=1000))
    calls: list[str] = []
    log.when_idle(lambda: calls.append("at once"))
    append(log, batch(), batch(value=bytes(70)), flush=False)

    def truncate_now() -> None:
        calls.append("truncate")
        assert log.take_truncation(1, NOW_MS) is not None

    log.when_idle(truncate_now)
    log.when_idle(lambda: calls.append("after"))
    write = log.take_staged()
    assert write is not None
    write.run()
    assert calls == ["at once"]
    log.written(write, NOW_MS)
    assert calls == ["at once", "truncate"]
    assert log.truncating
    assert log.take_flush() is None, "a segment may be removed at this moment"
    log.fail()
    assert calls == ["at once", "truncate", "after"]
