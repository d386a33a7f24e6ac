"""Page Scoreboard: the mobile and the computer of the demo, each as its consumer group has seen the topic.

The page reads the topic itself and uses the committed offsets of the groups, so it does not join them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ottla.admin.groups import GroupInfo
from ottla.admin.records.browse import Browser, OffsetRange
from ottla.admin.session import Session
from ottla.admin.topics import TopicInfo
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientError
from ottla.console.data.boards import GROUPS, Boards
from ottla.console.page import Console, Context, Page, View
from ottla.scoreboard.match import teams
from ottla.scoreboard.screens import moment
from ottla.scoreboard.standings import Standing

TOPIC = "scoreboard"
SHOWN_MAX = 40


class BoardReader:
    """Reads the new records of the topic for each snapshot. May be used from several threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._boards = Boards()
        self._topic_id = ""
        self._positions: dict[TopicPartition, int] = {}

    def read(self, topic: TopicInfo, groups: Mapping[str, GroupInfo | None]) -> dict[str, list[Standing]]:
        """The standings of each group up to its committed offsets. A topic that was created again starts anew."""
        with self._lock:
            if topic.id != self._topic_id:
                self._topic_id, self._boards, self._positions = topic.id, Boards(), {}
            self._read_new(topic)
            for name, group in groups.items():
                if group is not None:
                    committed = {each.tp: each.committed or 0 for each in group.partitions}
                    self._boards.advance(name, committed)
            return {name: self._boards.standings(name)[:SHOWN_MAX] for name in groups}

    def _read_new(self, topic: TopicInfo) -> None:
        ranges = {}
        for one in topic.partitions:
            start = max(self._positions.get(one.tp, 0), one.start_offset or 0)
            if one.end_offset is not None and start < one.end_offset:
                ranges[one.tp] = OffsetRange(start, one.end_offset)
        if not ranges:
            return
        try:
            for record in Browser(self._session, [topic.name], ranges=ranges).records():
                tp = TopicPartition(record.topic, record.partition)
                self._boards.add(tp, record.offset, record.value)
                self._positions[tp] = record.offset + 1
        except ClientError:
            return  # the next snapshot continues
        self._positions |= {tp: each.end for tp, each in ranges.items()}


def context(console: Console, view: View) -> Context:
    topic = view.snapshot.topic(TOPIC)
    groups = {name: view.snapshot.group(name) for name in GROUPS}
    standings = console.boards.read(topic, groups) if topic is not None else {name: [] for name in GROUPS}
    return {
        "snapshot": view.snapshot,
        "exists": topic is not None,
        "groups": groups,
        "standings": standings,
        "teams": teams,
        "moment": moment,
    }


PAGE = Page("/scoreboard", "scoreboard.html", context, "scoreboard", live=("scoreboard_body",))
