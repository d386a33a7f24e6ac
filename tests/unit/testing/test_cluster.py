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
    with Cluster(brokers=1, data=str(tmp_path)) as cluster:
        assert cluster.metadata().cluster_id == cluster_id


def test_refused_arguments_leave_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for arguments in ({"brokers": 0}, {"brokers": -1}, {"brokers": 1, "racks": ["R1", "R2"]}):
        with pytest.raises(ValueError, match="broker"):
            Cluster(**arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"racks=\['R1', 'R2'\], not a text"):
        Cluster(racks="R1,R2")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("proxies", [False, True])
def test_a_cluster_runs_once(proxies: bool) -> None:
    cluster = Cluster(brokers=1, proxies=proxies)
    with pytest.raises(RuntimeError, match="has not been started"):
        cluster.restart(0)
    with cluster:
        with pytest.raises(RuntimeError, match="has been started already"):
            cluster.start()
        assert cluster.running == [0]
        for act in (cluster.kill, cluster.stop, cluster.pause, cluster.resume, cluster.restart):
            with pytest.raises(ValueError, match="no broker -1; the brokers are 0"):
                act(cluster.leader("missing"))
        assert cluster.running == [0]
    for restart in (cluster.start, cluster.restart_all, lambda: cluster.restart(0)):
        with pytest.raises(RuntimeError, match="has ended"):
            restart()
    with pytest.raises(RuntimeError, match="has ended"):
        cluster.disconnect(0)
    assert not cluster.data.exists()
