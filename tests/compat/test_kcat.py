"""kcat, as Debian packages it, works on Ottla."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import create_topic, fresh

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]


def kcat(broker: BrokerProcess, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", broker.bootstrap, *arguments]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_lists_brokers_and_topics(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("kcat-list"), 3)
    listed = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert [node["name"] for node in listed["brokers"]] == [broker.bootstrap]
    (known,) = listed["topics"]
    assert [partition["partition"] for partition in known["partitions"]] == [0, 1, 2]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produces_and_consumes_with_every_codec(broker: BrokerProcess, codec: str) -> None:
    topic = create_topic(broker.bootstrap, fresh(f"kcat-{codec}"))
    lines = [f"Canada vs USA:event {number} " + "x" * 50 for number in range(500)]
    kcat(broker, "-P", "-t", topic, "-K", ":", "-z", codec, stdin="\n".join(lines) + "\n")
    read = kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%k:%s\n")
    assert read.splitlines() == lines


def test_headers_tail_and_counting(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("kcat-tail"))
    kcat(broker, "-P", "-t", topic, "-H", "source=arena", stdin="".join(f"{n}\n" for n in range(10)))
    last = kcat(broker, "-C", "-t", topic, "-o", "-3", "-e", "-q", "-f", "%o %s %h\n")
    assert last.splitlines() == [f"{n} {n} source=arena" for n in (7, 8, 9)]
    assert kcat(broker, "-C", "-t", topic, "-o", "2", "-c", "2", "-q").split() == ["2", "3"]


def test_asks_for_an_offset_by_time(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("kcat-time"))
    kcat(broker, "-P", "-t", topic, stdin="".join(f"{n}\n" for n in range(5)))
    assert f"{topic} [0] offset 0" in kcat(broker, "-Q", "-t", f"{topic}:0:1")
