"""A test cluster of one broker: its life, its proxies, its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.local.requests import request_metadata
from ottla.testing import Cluster


def test_the_life_of_a_broker_in_a_cluster() -> None:
    with Cluster(brokers=1) as cluster:
        data = cluster.data
        host, port = cluster.bootstrap.split(":")
        assert request_metadata(host, int(port), timeout_s=30) is not None
        cluster.disconnect(0)
        assert request_metadata(host, int(port), timeout_s=0.2) is None
        cluster.reconnect(0)
        assert request_metadata(host, int(port), timeout_s=30) is not None
        cluster.pause(0)
        assert cluster.running == []
        cluster.resume(0)
        cluster.kill(0)
        assert request_metadata(host, int(port), timeout_s=30) is None
        cluster.restart(0)
        assert cluster.running == [0]
        cluster.stop(0)
        assert cluster.metadata() is None
        cluster.restart_all()
        assert request_metadata(host, int(port), timeout_s=30) is not None
    assert not data.exists()


def test_a_given_directory_is_kept_and_the_brokers_stop_cleanly(tmp_path: Path) -> None:
    with Cluster(brokers=1, data=tmp_path, proxies=False) as cluster:
        assert cluster.address(0) == cluster.brokers[0].bootstrap
        with pytest.raises(RuntimeError, match="no proxies"):
            cluster.disconnect(0)
        cluster_id = cluster.metadata().cluster_id
    assert (tmp_path / "broker-0" / ".kafka_cleanshutdown").exists()
    with Cluster(brokers=1, data=tmp_path) as cluster:
        assert cluster.metadata().cluster_id == cluster_id
