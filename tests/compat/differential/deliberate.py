"""The deliberate differences from Apache Kafka. `docs/GAPS.md` describes them for users."""

from __future__ import annotations

from tests.compat.differential.comparison import Deliberate

DELIBERATE = (
    Deliberate(
        "metadata-creates", "the first time", r"\.topics\.",
        "Kafka says the topic is unknown and creates it meanwhile; Ottla answers once it is there",
    ),
    Deliberate(
        "create-topics|describe-configs|internal-topics|chance", "", r".*flush\.messages\.(value|synonyms)",
        "acknowledged means synced: flush.messages is 1",
    ),
    Deliberate(
        "describe-configs", "broker$", r".*configs\.log\.flush\.interval\.messages\.",
        "acknowledged means synced: log.flush.interval.messages is 1",
    ),
    Deliberate(
        "describe-configs", "broker$", r".*configs\.(max\.connections|queued\.max\.request\.bytes)",
        "connections and bytes in flight are bounded by default",
    ),
    Deliberate(
        "describe-configs", "broker$",
        r".*configs\.((advertised\.)?listeners|log\.dirs?|controller\.quorum\.bootstrap\.servers)\.",
        "ports and directories are each broker's own; a quorum of one needs no address",
    ),
    Deliberate(
        "describe-configs", "broker$",
        r".*configs\.(node\.id|process\.roles|controller\.listener\.names|listener\.security\.protocol\.map)\.syn",
        "Ottla starts without a file, so these have defaults",
    ),
    Deliberate(
        "describe-configs", "broker$", r".*configs\.broker\.(session\.timeout|heartbeat\.interval)\.ms\.",
        "a machine that disappears is noticed in 3 s",
    ),
    Deliberate(
        "describe-configs", "loggers$", r"\.results\[0\]\.configs",
        "there are no loggers whose levels could be changed by name",
    ),
    Deliberate(
        "describe-quorum-v2", "the metadata", r"\.nodes\[0\]\.listeners",
        "a quorum of one has no listener for voters",
    ),
    Deliberate(
        "alter-configs-whole", "the same twice", "",
        "Kafka never answers; Ottla refuses",
    ),
    Deliberate(
        "alter-configs-stepwise", "operation ", r"\.responses\[0\]\.error_message",
        "Kafka gives no text; Ottla says what is wrong",
    ),
    Deliberate(
        "api-versions", "ranges",
        r"\.(7[6-9]|8[3-9]|9[0-2])$",
        "share groups and streams groups are not implemented",
    ),
)  # fmt: skip
