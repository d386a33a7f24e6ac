"""The binary records of classic groups, compared with those that Apache Kafka 4.3.1 wrote."""

from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_member import ClassicMember
from ottla.coordinator.group.classic.classic_records import (
    VALUE_VERSION,
    group_of,
    group_record,
    new_group_record,
)
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.records import GroupMetadataValue, MemberMetadata
from ottla.coordinator.runtime.decision import LogRecord
from ottla.wire import codec
from tests.support.classic_groups import subscription
from tests.support.coordination import FakeClock

SINCE_MS = 0x1A1E2704D49


def value_bytes(record: LogRecord) -> bytes:
    assert record.value is not None
    return record.version.to_bytes(2, "big") + codec.encode(record.value, record.version)


def group(**fields: object) -> ClassicGroup:
    return ClassicGroup("bg1", FakeClock(), state_since_ms=SINCE_MS, **fields)  # type: ignore[arg-type]


def test_a_new_group() -> None:
    expected = bytes.fromhex("0003 0000 00000000 ffff ffff 000001a1e2704d49 00000000")
    assert value_bytes(new_group_record(group())) == expected


def test_an_empty_group() -> None:
    left = group(protocol_type="consumer", generation=3)
    expected = bytes.fromhex("0003 0008 636f6e73756d6572 00000003 ffff ffff 000001a1e2704d49 00000000")
    assert value_bytes(group_record(left, {})) == expected


def test_a_group_with_a_member() -> None:
    stable = group(generation=1, protocol_name="range", leader_id="m")
    stable.add(
        ClassicMember(
            "m",
            instance_id="i",
            client_id="raw",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=15_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", b"sub"),),
        )
    )
    expected = bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0001 6d 000001a1e2704d49 00000001"
        "0001 6d 0001 69 0003 726177 000a 2f3132372e302e302e31 00003a98 00002710"
        "00000003 737562 00000002 5331"
    )
    assert value_bytes(group_record(stable, {"m": b"S1"})) == expected


def test_the_key_names_the_group() -> None:
    assert codec.encode(new_group_record(group()).key, 0) == b"\x00\x03bg1"


def test_records_of_old_brokers_are_read() -> None:
    """Version 0 has no state timestamp, no rebalance timeout and no instance ids."""
    old = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        members=[MemberMetadata(member_id="m", session_timeout=10_000, subscription=subscription("t"))],
    )
    read = codec.decode(GroupMetadataValue, memoryview(codec.encode(old, 0)), 0)
    found = group_of("bg1", read, FakeClock())
    assert (found.state, found.generation, found.state_since_ms) == (ClassicState.STABLE, 4, None)
    assert found.members["m"].rebalance_timeout_ms == 10_000
    assert found.members["m"].instance_id is None


def test_records_survive_a_round_trip() -> None:
    stable = group(generation=1, protocol_name="range", leader_id="m")
    record = group_record(stable, {})
    assert isinstance(record.value, GroupMetadataValue)
    found = group_of("bg1", record.value, FakeClock())
    assert group_record(found, {}) == record
    assert record.version == VALUE_VERSION
