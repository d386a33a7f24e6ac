"""The picture of partitions by brokers as it is rendered."""

from __future__ import annotations

import re

from ottla.admin.topics import PartitionInfo, TopicInfo
from ottla.console.data.snapshot import Broker, Snapshot
from ottla.console.presentation.rendering import make_environment, render


def test_replicas_are_leader_in_sync_eligible_or_behind() -> None:
    topic = TopicInfo("t", "", False, (PartitionInfo("t", 0, 0, 7, (0, 1, 2, 3), (0, 1), elr=(2,)),))
    snapshot = Snapshot(brokers=tuple(Broker(each, "a", None) for each in range(5)), topics=(topic,))
    context = {"snapshot": snapshot, "topics": [topic], "left_out": 0}
    page = render(make_environment(), "fragments/cluster_picture.html", context)
    assert re.findall(r"rep is-(\w+)", page) == ["leader", "follower", "eligible", "behind"]
    assert "Broker 2 follows t-0, not in sync, but eligible as leader" in page
