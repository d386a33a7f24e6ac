"""Odd batches and what Apache Kafka 4.3.1 does with each: the answer, and what then lies in the log.

The answers were observed on a real broker by sending these bytes in raw Produce requests (version 8 unless a
case says otherwise) to topics with the named settings, and fetching back what was stored.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cramjam

from ottla.base.varint import append_varint
from ottla.records.batch import HEADER, HEADER_SIZE, compute_crc
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec, compress
from ottla.records.record import Record, append_record

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "append": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "window": {"message.timestamp.before.max.ms": "7200000", "message.timestamp.after.max.ms": "3600000"},
    "open": {"message.timestamp.after.max.ms": "9223372036854775807"},
    "gzip": {"compression.type": "gzip"},
    "snappy": {"compression.type": "snappy"},
    "lz4": {"compression.type": "lz4"},
    "zstd": {"compression.type": "zstd"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip-append": {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
    "gzip-small": {"compression.type": "gzip", "max.message.bytes": "200"},
    "small": {"max.message.bytes": "200"},
}

FIELDS = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
)


@dataclass(frozen=True)
class Case:
    """`code` is the answer. `changed` are header fields that differ in the log from what was sent.

    Offset and epoch differ always, the CRC with any other field, and are not listed; `now` stands for the
    broker's time of append. `records` are (offset delta, timestamp delta) of each stored record where the
    packing changed.
    """

    name: str
    data: Callable[[int], bytes]
    code: int
    topic: str = "plain"
    api_version: int = 8
    record_errors: tuple[int, ...] = ()
    changed: dict[str, Any] = field(default_factory=dict)
    records: tuple[tuple[int, int], ...] | None = None


def plain(now: int, count: int = 3, **options: Any) -> bytes:
    """A sound batch."""
    return build_batch([NewRecord(b"k%d" % i, b"value", (), now + i) for i in range(count)], **options)


def patch(batch: bytes, **fields: int) -> bytes:
    """Change header fields; the CRC is made right again unless it is given."""
    values = dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True)) | fields
    out = bytearray(batch)
    HEADER.pack_into(out, 0, *values.values())
    if "crc" not in fields:
        values["crc"] = compute_crc(out)
        HEADER.pack_into(out, 0, *values.values())
    return bytes(out)


def with_section(batch: bytes, section: bytes, **fields: int) -> bytes:
    """Another records section under the same header."""
    return patch(batch[:HEADER_SIZE] + section, batch_length=HEADER_SIZE - 12 + len(section), **fields)


def section_of(*records: Record) -> bytes:
    """Records as they lie in a batch."""
    out = bytearray()
    for record in records:
        append_record(out, record)
    return bytes(out)


def varint(value: int) -> bytes:
    """One zig-zag varint."""
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def raw_record(body: bytes, size: int | None = None) -> bytes:
    """A record of any body under any declared size."""
    return varint(len(body) if size is None else size) + body


# attributes, timestamp delta 0, offset delta 0; then key, value, header count
_FRONT = b"\x00\x00\x00"


def one(section: bytes, codec: Codec = Codec.NONE) -> Callable[[int], bytes]:
    """A batch whose header announces one record, and this section, packed."""
    return lambda now: with_section(plain(now, 1), compress(codec, section), attributes=int(codec))


def packed(section: bytes, codec: int, count: int = 1) -> Callable[[int], bytes]:
    """A batch of `count` records with a section that is already packed."""
    return lambda now: with_section(
        plain(now, count), section, attributes=codec, last_offset_delta=count - 1, records_count=count
    )


def changed(**fields: int) -> Callable[[int], bytes]:
    """A sound batch of three with other header fields."""
    return lambda now: patch(plain(now), **fields)


def linked_lz4(data: bytes) -> bytes:
    """An LZ4 frame whose blocks refer to each other."""
    return bytes(cramjam.lz4.compress(data))


SOUND = section_of(Record(0, 0, b"k", b"value"))
_THREE = section_of(*(Record(i, i, b"k", b"value") for i in range(3)))
_JUMP = section_of(Record(0, 0, b"k", b"a"), Record(5, 1, b"k", b"b"), Record(7, 2, b"k", b"c"))
_LATE = section_of(Record(0, 50, b"k", b"a"), Record(1, 40, b"k", b"b"), Record(2, 60, b"k", b"c"))


def _old_message(magic: int) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    return struct.pack(">qi", 0, len(body) + 4) + struct.pack(">I", zlib.crc32(body)) + body


def lz4_frame(flags: int, data: bytes, descriptor: int = 0x40, checksum: int = 0x82) -> bytes:
    return (
        b"\x04\x22\x4d\x18"
        + bytes((flags, descriptor, checksum))
        + struct.pack("<I", len(data) | 0x80000000)
        + data
        + bytes(4)
    )


CASES = [
    Case("sound", plain, 0),
    # framing
    Case("empty", lambda now: b"", 87),
    Case("16 bytes", lambda now: plain(now)[:16], 87),
    Case("truncated header", lambda now: plain(now)[:40], 87),
    Case("truncated records", lambda now: plain(now)[:-1], 87),
    Case("length 13", lambda now: patch(plain(now), batch_length=13, crc=0), 2),
    Case("length negative", lambda now: patch(plain(now), batch_length=-1, crc=0), 2),
    Case("length 14, alone", lambda now: patch(plain(now)[:61], batch_length=14, crc=0)[:26], -1),
    Case("length 38, alone", lambda now: patch(plain(now)[:61], batch_length=38, base_offset=5)[:50], -1),
    Case("length 39, alone", lambda now: patch(plain(now)[:61], batch_length=39)[:51], 2),
    Case(
        "length 39, base offset 5",
        lambda now: patch(plain(now)[:61], batch_length=39, base_offset=5)[:51],
        87,
    ),
    Case("length 48, alone", lambda now: patch(plain(now)[:61], batch_length=48)[:60], 2),
    Case("header only", lambda now: plain(now)[:61], 87),
    Case("header only, whole", lambda now: with_section(plain(now), b""), 87),
    Case("magic 0", lambda now: _old_message(0), 87),
    Case("magic 1", lambda now: _old_message(1), 87),
    Case("magic 3", changed(magic=3), 2),
    Case("magic -1", changed(magic=-1), 2),
    Case("two batches", lambda now: plain(now) + plain(now), 87),
    Case("tail of 11 bytes", lambda now: plain(now) + bytes(11), 0),
    Case("tail of 11 bytes of ones", lambda now: plain(now) + b"\xff" * 11, 0),
    Case("tail of 12 zero bytes", lambda now: plain(now) + bytes(12), 2),
    Case("tail: half a batch", lambda now: plain(now) + plain(now)[:50], 0),
    Case("tail: half a batch of magic 9", lambda now: plain(now) + patch(plain(now), magic=9)[:50], 2),
    # header
    Case("bad crc", changed(crc=1), 2),
    Case("base offset 5", changed(base_offset=5), 87),
    Case("leader epoch 77", changed(partition_leader_epoch=77), 0),
    Case("too large", lambda now: plain(now, 20), 10, "small"),
    Case("too large and bad crc", lambda now: patch(plain(now, 20), crc=1), 10, "small"),
    Case("too large and base offset 5", lambda now: patch(plain(now, 20), base_offset=5), 87, "small"),
    Case("codec 5", changed(attributes=5), -1),
    Case("codec 7", changed(attributes=7), -1),
    Case("codec 5 before version 7", changed(attributes=5), -1, api_version=3),
    Case("codec 5 and bad crc", changed(attributes=5, crc=1), 2),
    Case("zstd before version 7", lambda now: plain(now, codec=Codec.ZSTD), 76, api_version=6),
    Case("zstd in version 7", lambda now: plain(now, codec=Codec.ZSTD), 0, api_version=7),
    Case("gzip in version 3", lambda now: plain(now, codec=Codec.GZIP), 0, api_version=3),
    Case("control", lambda now: plain(now, control=True), 87),
    Case("unknown attribute bits", changed(attributes=0x1180), 0),
    Case("delete horizon bit", changed(attributes=0x40), 0),
    Case("count too small", changed(records_count=2, last_offset_delta=1), 87),
    Case("count too large", changed(records_count=4, last_offset_delta=3), 87),
    Case("count 0", changed(records_count=0, last_offset_delta=-1), 87),
    Case("count negative", changed(records_count=-1), 87),
    Case("count and delta disagree", changed(last_offset_delta=3), 87),
    Case("delta negative", changed(last_offset_delta=-5), 87),
    Case("producer id -5", changed(producer_id=-5, producer_epoch=0, base_sequence=0), 0),
    Case("sequence without producer id", changed(base_sequence=7), 0),
    Case("producer id without sequence", changed(producer_id=4000, producer_epoch=0), 87),
    Case("producer id, sequence -2", changed(producer_id=4000, producer_epoch=0, base_sequence=-2), 87),
    # time
    Case(
        "max timestamp too small",
        lambda now: patch(plain(now), max_timestamp=now),
        0,
        changed={"max_timestamp": 2},
    ),
    Case(
        "max timestamp too large",
        lambda now: patch(plain(now), max_timestamp=now + 9),
        0,
        changed={"max_timestamp": 2},
    ),
    Case("max timestamp -1", changed(max_timestamp=-1), 0, changed={"max_timestamp": 2}),
    Case(
        "wrong max timestamp, unknown bits",
        changed(max_timestamp=-1, attributes=0x1180),
        0,
        changed={"max_timestamp": 2, "attributes": 0},
    ),
    Case(
        "wrong max timestamp, delete horizon",
        changed(max_timestamp=-1, attributes=0x40),
        0,
        changed={"max_timestamp": 2},
    ),
    Case("no timestamps", lambda now: build_batch([NewRecord(b"k", b"v")]), 0),
    Case("client's append-time bit", changed(attributes=8), 0, changed={"attributes": 0}),
    Case(
        "client's append-time bit, other max",
        lambda now: patch(plain(now), attributes=8, max_timestamp=now - 500),
        0,
        changed={"attributes": 0},
    ),
    Case(
        "client's append-time bit, max -1",
        changed(attributes=8, max_timestamp=-1),
        32,
        record_errors=(0, 1, 2),
    ),
    Case(
        "append topic",
        lambda now: plain(now - 500),
        0,
        "append",
        changed={"max_timestamp": "now", "attributes": 8},
    ),
    Case("append topic, client's bit", changed(attributes=8), 32, "append", record_errors=(0, 1, 2)),
    Case(
        "append topic, old record",
        lambda now: plain(1000),
        0,
        "append",
        changed={"max_timestamp": "now", "attributes": 8},
    ),
    Case(
        "append topic, gzip",
        lambda now: plain(now - 500, codec=Codec.GZIP),
        0,
        "append",
        changed={"max_timestamp": "now", "attributes": 9},
    ),
    Case("three days old", lambda now: plain(now - 72 * HOUR_MS), 0),
    Case("two hours ahead", lambda now: plain(now + 2 * HOUR_MS), 32, record_errors=(0, 1, 2)),
    Case("window: fine", lambda now: plain(now - HOUR_MS), 0, "window"),
    Case("window: too old", lambda now: plain(now - 3 * HOUR_MS), 32, "window", record_errors=(0, 1, 2)),
    Case(
        "window: one too old",
        lambda now: build_batch(
            [NewRecord(b"k", b"v", (), now), NewRecord(b"k", b"v", (), now - 3 * HOUR_MS)]
        ),
        32,
        "window",
        record_errors=(1,),
    ),
    Case("window: none", lambda now: build_batch([NewRecord(b"k", b"v")]), 0, "window"),
    Case(
        "window: packed, too old",
        lambda now: plain(now - 3 * HOUR_MS, codec=Codec.LZ4),
        32,
        "window",
        record_errors=(0, 1, 2),
    ),
    Case("timestamp -5", lambda now: plain(-5, 1), 0, changed={"max_timestamp": -1}),
    Case(
        "timestamp smallest",
        lambda now: patch(plain(0, 1), base_timestamp=-(2**63), max_timestamp=-1),
        32,
        record_errors=(0,),
    ),
    Case(
        "timestamp smallest, open window",
        lambda now: patch(plain(0, 1), base_timestamp=-(2**63), max_timestamp=-1),
        0,
        "open",
    ),
    Case(
        "timestamp largest, open window",
        lambda now: patch(plain(0, 1), base_timestamp=2**63 - 1, max_timestamp=2**63 - 1),
        0,
        "open",
    ),
    Case(
        "timestamp wraps",
        lambda now: patch(plain(0, 2), base_timestamp=2**63 - 1, max_timestamp=2**63 - 1),
        0,
        "open",
    ),
    # keys
    Case("compacted", plain, 0, "compacted"),
    Case(
        "compacted, no key",
        lambda now: build_batch([NewRecord(None, b"v", (), now)]),
        87,
        "compacted",
        record_errors=(0,),
    ),
    Case(
        "compacted, one without key",
        lambda now: build_batch([NewRecord(b"k", b"v", (), now), NewRecord(None, b"v", (), now)]),
        87,
        "compacted",
        record_errors=(1,),
    ),
    Case(
        "compacted, no key, packed",
        lambda now: build_batch([NewRecord(None, b"v", (), now)], codec=Codec.ZSTD),
        87,
        "compacted",
        record_errors=(0,),
    ),
    Case("compacted, empty key", lambda now: build_batch([NewRecord(b"", b"v", (), now)]), 0, "compacted"),
    Case(
        "compacted, no key and too new",
        lambda now: build_batch(
            [NewRecord(None, b"v", (), now), NewRecord(b"k", b"v", (), now + 2 * HOUR_MS)]
        ),
        32,
        "compacted",
        record_errors=(0, 1),
    ),
    # records
    Case("offset deltas jump", lambda now: with_section(plain(now), _JUMP), 0),
    Case("offset deltas jump, gzip", packed(compress(1, _JUMP), 1, 3), -1),
    Case("offset deltas jump, zstd", packed(compress(4, _JUMP), 4, 3), -1),
    Case("record attributes set", one(raw_record(b"\xff\x00\x00\x01\x01\x00")), 0),
    Case("key length -2", one(raw_record(_FRONT + b"\x03\x01\x00")), 0),
    Case("value length -3", one(raw_record(_FRONT + b"\x01\x05\x00")), 0),
    Case(
        "key length -2, compacted",
        one(raw_record(_FRONT + b"\x03\x01\x00")),
        87,
        "compacted",
        record_errors=(0,),
    ),
    Case("key passes the record", one(raw_record(_FRONT + b"\x14" + b"k\x01\x00")), 87),
    Case("value passes the record", one(raw_record(_FRONT + b"\x01\x14\x00")), 87),
    Case("header count negative", one(raw_record(_FRONT + b"\x01\x01\x01")), 87),
    Case("header count too large", one(raw_record(_FRONT + b"\x01\x01\x14")), 87),
    Case("header key negative", one(raw_record(_FRONT + b"\x01\x01\x02\x01\x00")), 87),
    Case("header value null", one(raw_record(_FRONT + b"\x01\x01\x02\x02h\x01")), 0),
    Case("record length too small", one(raw_record(_FRONT + b"\x01\x01\x00", 5)), 87),
    Case("record length too large", one(raw_record(_FRONT + b"\x01\x01\x00", 7)), 87),
    Case("record length negative", one(raw_record(_FRONT + b"\x01\x01\x00", -1)), 87),
    Case("record length 0", one(raw_record(_FRONT + b"\x01\x01\x00", 0)), 87),
    Case("record length varint of 6 bytes", one(b"\x80" * 5 + b"\x00" + SOUND), -1),
    Case("record length varint of 5 bytes", one(b"\x8c\x80\x80\x80\x00" + _FRONT + b"\x01\x01\x00"), 0),
    Case("record length varint is cut", one(b"\x80"), 87),
    Case("key length varint of 6 bytes", one(raw_record(_FRONT + b"\x80" * 5 + b"\x00\x01\x00")), 87),
    Case("timestamp varint of 10 bytes", one(raw_record(b"\x00" + b"\x80" * 9 + b"\x00\x00\x01\x01\x00")), 0),
    Case(
        "timestamp varint of 11 bytes", one(raw_record(b"\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00")), 87
    ),
    Case("bytes after the last record", one(SOUND + b"\x00"), 87),
    # packed records
    Case("gzip", lambda now: plain(now, codec=Codec.GZIP), 0),
    Case("snappy", lambda now: plain(now, codec=Codec.SNAPPY), 0),
    Case("lz4", lambda now: plain(now, codec=Codec.LZ4), 0),
    Case("zstd", lambda now: plain(now, codec=Codec.ZSTD), 0),
    Case(
        "gzip: wrong max timestamp",
        lambda now: patch(plain(now, codec=Codec.GZIP), max_timestamp=0),
        0,
        changed={"max_timestamp": 2},
    ),
    Case("snappy raw", packed(bytes(cramjam.snappy.compress_raw(SOUND)), 2), 0),
    Case("snappy: tail of 3 bytes", packed(compress(2, SOUND) + b"\x00\x00\x00", 2), 0),
    Case("snappy: joined streams", packed(compress(2, _THREE[:7]) + compress(2, _THREE[7:]), 2, 3), 0),
    Case("gzip: two members", packed(gzip.compress(_THREE[:7]) + gzip.compress(_THREE[7:]), 1, 3), 0),
    Case("gzip: junk after the member", packed(gzip.compress(SOUND) + b"junk and more of it", 1), 0),
    Case("gzip: cut", packed(gzip.compress(SOUND)[:-4], 1), -1),
    Case("gzip: wrong checksum", packed(gzip.compress(SOUND)[:-8] + bytes(8), 1), -1),
    Case("gzip: no gzip", packed(b"no gzip at all, is it", 1), -1),
    Case("snappy: no snappy", packed(b"\xff\xff\xff\xff\xff\xff\xff\xff", 2), -1),
    Case("lz4: no frame", packed(b"no frame at all", 3), -1),
    Case("lz4: linked blocks", packed(linked_lz4(SOUND), 3), -1),
    Case("lz4: wrong header checksum", packed(lz4_frame(0x60, SOUND, checksum=0), 3), -1),
    Case("lz4: stored block", packed(lz4_frame(0x60, SOUND), 3), 0),
    Case("lz4: junk after the frame", packed(compress(3, SOUND) + b"junk", 3), 0),
    Case("lz4: blocks of 4 MiB", packed(lz4_frame(0x60, SOUND, 0x70, 0x73), 3), 0),
    Case("lz4: content checksum missing", packed(lz4_frame(0x64, SOUND, 0x40, 0xA7), 3), -1),
    Case("lz4: block larger than declared", packed(lz4_frame(0x60, SOUND + bytes(65536)), 3), -1),
    Case("lz4: version 2", packed(lz4_frame(0xA0, SOUND), 3), -1),
    Case("lz4: no end mark", packed(compress(3, SOUND)[:-4], 3), -1),
    Case("zstd: no frame", packed(b"no frame at all", 4), -1),
    Case("zstd: cut", packed(compress(4, SOUND)[:-2], 4), -1),
    Case("zstd: two frames", packed(compress(4, _THREE[:7]) + compress(4, _THREE[7:]), 4, 3), 0),
    Case("zstd: skippable frame", packed(b"\x50\x2a\x4d\x18\x04\x00\x00\x00junk" + compress(4, SOUND), 4), 0),
    Case("snappy: block is cut", packed(compress(2, SOUND)[:-1], 2), -1),
    Case("snappy: block length negative", packed(compress(2, SOUND) + b"\xff\xff\xff\xff", 2), -1),
    Case("snappy: framing only", packed(compress(2, b""), 2), 87),
    Case("snappy: framing is cut", packed(compress(2, b"")[:12], 2), -1),
    Case("snappy: empty", packed(b"", 2), -1),
    Case("gzip: empty", packed(b"", 1), -1),
    Case("lz4: empty", packed(b"", 3), -1),
    Case("zstd: empty", packed(b"", 4), 87),
    Case("zstd: junk after the frame", packed(compress(4, SOUND) + b"junk!", 4), -1),
    Case("gzip: nothing inside", packed(gzip.compress(b""), 1), 87),
    Case("gzip: bytes after the last record", packed(gzip.compress(SOUND + b"\x00"), 1), 87),
    Case("gzip: a record too few", packed(gzip.compress(SOUND), 1, 2), 87),
    Case(
        "gzip: record length too large", packed(gzip.compress(raw_record(_FRONT + b"\x01\x01\x00", 9)), 1), 0
    ),
    Case(
        "gzip: record length negative", packed(gzip.compress(raw_record(_FRONT + b"\x01\x01\x00", -1)), 1), 0
    ),
    Case(
        "gzip: record length varint of 6 bytes", packed(gzip.compress(b"\x80" * 5 + b"\x00" + SOUND), 1), 87
    ),
    Case(
        "gzip: key passes the end", packed(gzip.compress(raw_record(_FRONT + b"\x14" + b"k\x01\x00")), 1), 87
    ),
    Case("gzip: header count negative", packed(gzip.compress(raw_record(_FRONT + b"\x01\x01\x01")), 1), 87),
    Case("gzip: header count too large", packed(gzip.compress(raw_record(_FRONT + b"\x01\x01\x14")), 1), 87),
    Case(
        "gzip: header key negative",
        packed(gzip.compress(raw_record(_FRONT + b"\x01\x01\x02\x01\x00")), 1),
        87,
    ),
    # packed again by the broker
    *(
        Case(
            f"{source.name} to {target}",
            lambda now, source=source: plain(now, codec=source),
            0,
            target,
            changed={}
            if source.name.lower() == target or (source, target) == (0, "uncompressed")
            else {"attributes": code},
            records=((0, 0), (1, 1), (2, 2)),
        )
        for source in Codec
        for target, code in (("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0))
    ),
    Case(
        "none to gzip: offsets jump",
        lambda now: with_section(plain(now), _JUMP),
        0,
        "gzip",
        changed={"attributes": 1},
        records=((0, 0), (1, 1), (2, 2)),
    ),
    Case(
        "zstd to gzip: offsets jump",
        packed(compress(4, _JUMP), 4, 3),
        0,
        "gzip",
        changed={"attributes": 1},
        records=((0, 0), (1, 1), (2, 2)),
    ),
    Case("gzip to gzip: offsets jump", packed(compress(1, _JUMP), 1, 3), -1, "gzip"),
    Case(
        "none to gzip: first delta not 0",
        lambda now: with_section(plain(now), _LATE),
        0,
        "gzip",
        changed={"attributes": 1, "base_timestamp": 50, "max_timestamp": 60},
        records=((0, 0), (1, -10), (2, 10)),
    ),
    Case(
        "none to gzip: append time",
        lambda now: plain(now - 500),
        0,
        "gzip-append",
        changed={"attributes": 9, "max_timestamp": "now"},
        records=((0, 0), (1, 1), (2, 2)),
    ),
    Case(
        "none to gzip: client's append-time bit",
        changed(attributes=8),
        0,
        "gzip",
        changed={"attributes": 1, "base_timestamp": 2},
        records=((0, 0), (1, 0), (2, 0)),
    ),
    Case("none to gzip: timestamp -5", lambda now: plain(-5, 1), -1, "gzip"),
    Case(
        "none to gzip: no timestamp",
        lambda now: build_batch([NewRecord(b"k", b"v")]),
        0,
        "gzip",
        changed={"attributes": 1},
        records=((0, 0),),
    ),
    Case(
        "none to gzip: unknown bits, delete horizon, transactional off",
        changed(attributes=0x11C0 & ~0x10),
        0,
        "gzip",
        changed={"attributes": 1},
        records=((0, 0), (1, 1), (2, 2)),
    ),
    Case(
        "lz4 to gzip: record length too large",
        packed(compress(3, raw_record(_FRONT + b"\x01\x01\x00", 9)), 3),
        87,
        "gzip",
    ),
    Case(
        "lz4 to gzip: record length negative",
        packed(compress(3, raw_record(_FRONT + b"\x01\x01\x00", -1)), 3),
        87,
        "gzip",
    ),
    Case(
        "lz4 to gzip: record length varint of 6 bytes",
        packed(compress(3, b"\x80" * 5 + b"\x00" + SOUND), 3),
        87,
        "gzip",
    ),
    Case("none to gzip: record length varint of 6 bytes", one(b"\x80" * 5 + b"\x00" + SOUND), -1, "gzip"),
    Case(
        "none to gzip: record attributes and headers",
        one(raw_record(b"\xff\x00\x00\x01\x01\x02\x02h\x01")),
        0,
        "gzip",
        changed={"attributes": 1},
        records=((0, 0),),
    ),
    Case(
        "zstd to gzip: grows too large",
        lambda now: build_batch([NewRecord(b"k", bytes(range(256)) * 40, (), now)], codec=Codec.ZSTD),
        10,
        "gzip-small",
    ),
]
