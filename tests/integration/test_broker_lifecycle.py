"""Starting, stopping, starting again."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from ottla.base import compiled
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.support.clients import Publisher, Reader, create_topic

MakeBroker = Callable[..., BrokerProcess]


def test_a_clean_stop_leaves_a_marker_and_nothing_is_lost(make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = create_topic(broker.bootstrap, "kept", partitions=2)
    sent = Publisher(broker.bootstrap).send(
        topic, [{"key": b"%d" % n, "value": b"%d" % n} for n in range(100)]
    )
    assert broker.stop() == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    with Reader(broker.bootstrap, topic, range(2)) as reader:
        got = {(one.partition(), one.offset()): one.value() for one in reader.take(100)}
    assert got == {(one.partition, one.offset): one.value for one in sent}


def test_a_broker_runs_the_compiled_modules_that_belong_to_the_sources(make_broker: MakeBroker) -> None:
    mapped = Path(f"/proc/{make_broker().pid}/maps").read_text()
    assert (f"/{compiled.FOLDER}/" in mapped) is bool(compiled.current_extensions(compiled.PACKAGE))


def test_a_killed_broker_has_all_acknowledged_records_after_a_restart(make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = create_topic(broker.bootstrap, "kept")
    Publisher(broker.bootstrap).send(topic, [{"value": b"%d" % n} for n in range(100)])
    broker.kill()
    broker.start()
    Publisher(broker.bootstrap).send(topic, [{"value": b"after"}])
    with Reader(broker.bootstrap, topic, [0]) as reader:
        assert [one.value() for one in reader.take(101)] == [b"%d" % n for n in range(100)] + [b"after"]


def test_a_deleted_topic_stays_deleted(make_broker: MakeBroker) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "gone")
    create_topic(broker.bootstrap, "here")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["gone"])["gone"].result(30)
    assert not (broker.data / "gone-0").exists()
    broker.stop()
    broker.start()
    assert set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics) == {
        "here"
    }


def test_a_second_broker_on_the_same_directory_is_refused(make_broker: MakeBroker) -> None:
    broker = make_broker()
    second = BrokerProcess(broker.data, port=free_port())
    result = subprocess.run(second.command(), capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1
    assert "locked" in result.stderr
    assert "ready" not in result.stdout
    assert broker.running


def test_standard_output_carries_the_ready_line_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "broker", "--data", str(tmp_path / "d")]
    command += ["--override", "listeners=PLAINTEXT://127.0.0.1:0,SIX://[::1]:0"]
    command += ["--override", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT"]
    command += ["--override", "no.such.setting=1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline().split()
    assert said[0] == "ready"
    first, second = said[1:3]
    assert first.startswith("PLAINTEXT://127.0.0.1:")
    assert second.startswith("SIX://[::1]:")
    for host, address in (("127.0.0.1", first), ("::1", second)):
        socket.create_connection((host, int(address.rpartition(":")[2])), timeout=10).close()
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert "no.such.setting" in err


def test_a_port_in_use_is_reported(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker()
    second = BrokerProcess(tmp_path / "other", port=broker.port)
    result = subprocess.run(second.command(), capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1
    assert "cannot listen" in result.stderr
