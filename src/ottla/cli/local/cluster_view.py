"""What `ottla up` shows about a cluster: a table for a terminal, or a line per change for other outputs.

Pure functions of snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.box import HEAVY_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ottla.base.ids import TopicPartition

NO_LEADER = -1
TOPICS_SHOWN = 12
WIDE = 240
"""More columns than any table of brokers needs."""
KEYS = "0-9 select a broker   k kill   p pause or resume   s stop   r restart   q quit"
_CONTROLLER = ", active controller"
_STYLES = {"running": "green", "starting": "yellow", "fenced": "yellow", "paused": "magenta"}


@dataclass(frozen=True)
class BrokerState:
    """One broker at one moment. `state`: running, starting, fenced, paused, stopped, killed or ended."""

    node_id: int
    address: str
    rack: str | None
    state: str
    records_per_s: float = 0.0


@dataclass(frozen=True)
class PartitionState:
    """One partition as the metadata of a broker lists it."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment."""

    brokers: tuple[BrokerState, ...] = ()
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    controller: int | None = None

    def leads(self, node_id: int) -> int:
        return sum(each.leader == node_id for each in self.partitions.values())

    def follows(self, node_id: int, *, in_sync: bool) -> int:
        return sum(
            node_id in each.replicas and node_id != each.leader and (node_id in each.in_sync) == in_sync
            for each in self.partitions.values()
        )


def draw(snapshot: Snapshot, selected: int | None, note: str) -> RenderableType:
    """The tables of brokers and partitions, and the keys."""
    return _Screen(snapshot, selected, note)


@dataclass(frozen=True)
class _Screen:
    """One line per broker, the keys, and as many partitions as fit between them."""

    snapshot: Snapshot
    selected: int | None
    note: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        brokers = self._brokers(narrow=False)
        narrow = console.measure(brokers, options=options.update(width=WIDE)).maximum > options.max_width
        if narrow:
            brokers = self._brokers(narrow=True)
        keys = Group(Text(KEYS, style="dim"), Text(self.note))
        free = options.max_height - sum(len(console.render_lines(each)) for each in (brokers, keys))
        around = len(console.render_lines(_topics(self.snapshot, 0, narrow=narrow)))
        yield brokers
        if self.snapshot.partitions and free > around:
            yield _topics(self.snapshot, min(free - around, TOPICS_SHOWN), narrow=narrow)
        yield keys

    def _brokers(self, *, narrow: bool) -> Table:
        snapshot = self.snapshot
        table = _table("Brokers", narrow=narrow)
        racks = any(broker.rack for broker in snapshot.brokers)
        for name in ("id", *(() if narrow else ("address",)), *(("rack",) if racks else ()), "state"):
            # The layout must not change when another broker becomes the controller.
            widest = "controller" if narrow else f"running{_CONTROLLER}"
            table.add_column(name, min_width=len(widest) if name == "state" else None)
        for name in ("leads", "follows in sync", "out of sync", "offsets/s"):
            table.add_column(name, justify="right", min_width=max(map(len, name.split())))
        for broker in snapshot.brokers:
            behind = snapshot.follows(broker.node_id, in_sync=False)
            is_controller = broker.node_id == snapshot.controller
            table.add_row(
                f"{'>' if broker.node_id == self.selected else ' '} {broker.node_id}",
                *([] if narrow else [broker.address]),
                *([broker.rack or ""] if racks else []),
                Text(
                    broker.state + (_CONTROLLER if is_controller else ""),
                    style=_STYLES.get(broker.state, "red"),
                ),
                str(snapshot.leads(broker.node_id)),
                str(snapshot.follows(broker.node_id, in_sync=True)),
                Text(str(behind), style="red" if behind else ""),
                f"{broker.records_per_s:,.0f}",
                style="bold" if broker.node_id == self.selected else "",
            )
        return table


def _table(title: str, *, narrow: bool) -> Table:
    """A table, without lines on a narrow terminal."""
    table = Table(title=title, title_justify="left", box=None if narrow else HEAVY_HEAD)
    if narrow:
        table.padding = (0, 1, 0, 0)
        table.pad_edge = False
    return table


def _topics(snapshot: Snapshot, shown: int, *, narrow: bool) -> Table:
    """One line per partition: those with missing replicas first, those of internal topics last."""
    table = _table("Partitions", narrow=narrow)
    for name in ("partition", "leader", "replicas", "in sync"):
        table.add_column(name, no_wrap=True)
    ordered = sorted(
        snapshot.partitions.items(),
        key=lambda item: (not item[1].under_replicated, item[0].topic.startswith("__"), item[0]),
    )
    for tp, one in ordered[:shown]:
        leader = "none" if one.leader == NO_LEADER else str(one.leader)
        table.add_row(
            f"{tp.topic}-{tp.partition}",
            Text(leader, style="red" if one.leader == NO_LEADER else ""),
            " ".join(map(str, one.replicas)),
            Text(" ".join(map(str, one.in_sync)), style="red" if one.under_replicated else ""),
        )
    if len(ordered) > shown:
        table.caption = f"and {len(ordered) - shown} more"
    return table


def changes(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """One line for each change between two snapshots."""
    known = {each.node_id: each.state for each in before.brokers}
    for broker in after.brokers:
        if known.get(broker.node_id) != broker.state:
            yield f"broker {broker.node_id}: {broker.state}"
    if after.controller not in (None, before.controller):
        yield f"active controller: broker {after.controller}"
    for tp, one in after.partitions.items():
        old = before.partitions.get(tp)
        if old is None or (old.leader, old.in_sync) != (one.leader, one.in_sync):
            leader = "none" if one.leader == NO_LEADER else str(one.leader)
            in_sync = " ".join(map(str, one.in_sync))
            yield f"partition {tp.topic}-{tp.partition}: leader {leader}, in sync {in_sync or 'none'}"
    for tp in before.partitions.keys() - after.partitions.keys():
        yield f"partition {tp.topic}-{tp.partition}: deleted"
