"""Writes the message declarations from Kafka's message definitions. A developer's tool, never shipped.

    python tools/declare_messages.py DEFINITIONS [--into src/ottla]

DEFINITIONS is a folder that holds, at any depth, either the JSON definitions themselves
(`.../message/*.json`, `.../metadata/*.json`) or Kafka's jars, which carry them. Only facts are taken: names,
types, versions, tags and defaults. A struct keeps the name it has in its definition; where two structs of one
file share a name, the later one is prefixed by its message's name.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# One file per API: its module name and the API's name as the definitions spell it.
APIS = {
    "add_offsets_to_txn": "AddOffsetsToTxn",
    "add_partitions_to_txn": "AddPartitionsToTxn",
    "add_raft_voter": "AddRaftVoter",
    "allocate_producer_ids": "AllocateProducerIds",
    "alter_client_quotas": "AlterClientQuotas",
    "alter_configs": "AlterConfigs",
    "alter_partition": "AlterPartition",
    "alter_partition_reassignments": "AlterPartitionReassignments",
    "alter_replica_log_dirs": "AlterReplicaLogDirs",
    "alter_user_scram_credentials": "AlterUserScramCredentials",
    "api_versions": "ApiVersions",
    "assign_replicas_to_dirs": "AssignReplicasToDirs",
    "begin_quorum_epoch": "BeginQuorumEpoch",
    "broker_heartbeat": "BrokerHeartbeat",
    "broker_registration": "BrokerRegistration",
    "consumer_group_describe": "ConsumerGroupDescribe",
    "consumer_group_heartbeat": "ConsumerGroupHeartbeat",
    "controller_registration": "ControllerRegistration",
    "create_acls": "CreateAcls",
    "create_delegation_token": "CreateDelegationToken",
    "create_partitions": "CreatePartitions",
    "create_topics": "CreateTopics",
    "delete_acls": "DeleteAcls",
    "delete_groups": "DeleteGroups",
    "delete_records": "DeleteRecords",
    "delete_topics": "DeleteTopics",
    "describe_acls": "DescribeAcls",
    "describe_client_quotas": "DescribeClientQuotas",
    "describe_cluster": "DescribeCluster",
    "describe_configs": "DescribeConfigs",
    "describe_delegation_token": "DescribeDelegationToken",
    "describe_groups": "DescribeGroups",
    "describe_log_dirs": "DescribeLogDirs",
    "describe_producers": "DescribeProducers",
    "describe_quorum": "DescribeQuorum",
    "describe_topic_partitions": "DescribeTopicPartitions",
    "describe_transactions": "DescribeTransactions",
    "describe_user_scram_credentials": "DescribeUserScramCredentials",
    "elect_leaders": "ElectLeaders",
    "end_quorum_epoch": "EndQuorumEpoch",
    "end_txn": "EndTxn",
    "envelope": "Envelope",
    "expire_delegation_token": "ExpireDelegationToken",
    "fetch": "Fetch",
    "fetch_snapshot": "FetchSnapshot",
    "find_coordinator": "FindCoordinator",
    "get_telemetry_subscriptions": "GetTelemetrySubscriptions",
    "heartbeat": "Heartbeat",
    "incremental_alter_configs": "IncrementalAlterConfigs",
    "init_producer_id": "InitProducerId",
    "join_group": "JoinGroup",
    "leave_group": "LeaveGroup",
    "list_config_resources": "ListConfigResources",
    "list_groups": "ListGroups",
    "list_offsets": "ListOffsets",
    "list_partition_reassignments": "ListPartitionReassignments",
    "list_transactions": "ListTransactions",
    "metadata": "Metadata",
    "offset_commit": "OffsetCommit",
    "offset_delete": "OffsetDelete",
    "offset_fetch": "OffsetFetch",
    "offset_for_leader_epoch": "OffsetForLeaderEpoch",
    "produce": "Produce",
    "push_telemetry": "PushTelemetry",
    "remove_raft_voter": "RemoveRaftVoter",
    "renew_delegation_token": "RenewDelegationToken",
    "sasl_authenticate": "SaslAuthenticate",
    "sasl_handshake": "SaslHandshake",
    "sync_group": "SyncGroup",
    "txn_offset_commit": "TxnOffsetCommit",
    "unregister_broker": "UnregisterBroker",
    "update_features": "UpdateFeatures",
    "update_raft_voter": "UpdateRaftVoter",
    "vote": "Vote",
    "write_txn_markers": "WriteTxnMarkers",
}
HEADERS = ("RequestHeader", "ResponseHeader")
# Metadata that members of a classic group exchange; the coordinator decodes it in a migration.
CONSUMER_PROTOCOL = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
CONTROL_RECORDS = (
    "ControlRecordTypeSchema",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
)
# The logs of the coordinators: their file, their topic, and the records in the order of their numbers.
COORDINATOR_RECORDS = {
    "coordinator/group/records.py": (
        "__consumer_offsets",
        (
            "LegacyOffsetCommit",
            "OffsetCommit",
            "GroupMetadata",
            "ConsumerGroupMetadata",
            "ConsumerGroupPartitionMetadata",
            "ConsumerGroupMemberMetadata",
            "ConsumerGroupTargetAssignmentMetadata",
            "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupCurrentMemberAssignment",
            "ConsumerGroupRegularExpression",
        ),
    ),
    "coordinator/txn/records.py": ("__transaction_state", ("TransactionLog",)),
}

PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "uuid": "Uuid",
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), "int"),
}
ZERO_VALUES = {"bool": "False", "float": "0.0", "str": '""', "bytes": 'b""', "Uuid": "ZERO_UUID", "int": "0"}


def read_definitions(source: Path) -> dict[str, Json]:
    """All definitions below a folder, by name."""
    found: dict[str, Json] = {}
    for folder, text in _definition_texts(source):
        definition = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        if folder == "message" or definition["type"] == "metadata":
            found[definition["name"]] = definition
    return found


def _definition_texts(source: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(source.rglob("*.json")):
        if path.parent.name in {"message", "metadata"}:
            yield path.parent.name, path.read_text()
    for jar in sorted(source.rglob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if match := re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    yield match[1], archive.read(name).decode()


def snake_case(name: str) -> str:
    """`KRaftVersionFeature` becomes kraft_version_feature, `LastKnownELR` last_known_elr."""
    text = name.replace("KRaft", "Kraft")
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()
    return text + "_" if keyword.iskeyword(text) else text


class Module:
    """One generated file: classes in the order in which Python must see them."""

    def __init__(self, docstring: str) -> None:
        self.docstring = docstring
        self.classes: list[str] = []
        self.taken: set[str] = set()

    def add(self, definition: Json) -> None:
        """Declare a message and, before it, the structs it holds."""
        common = {struct["name"]: struct for struct in definition.get("commonStructs", ())}
        names: dict[str, str] = {}
        spec = [repr(definition["type"])]
        if "apiKey" in definition:
            spec.append(f"api_key={definition['apiKey']}")
        spec.append(f"versions={definition['validVersions']!r}")
        spec.append(f"flexible={definition.get('flexibleVersions', 'none')!r}")
        body = [f"    SPEC: ClassVar[Spec] = Spec({', '.join(spec)})", ""]
        fields = definition.get("fields", ())
        self.taken.add(definition["name"])
        body += [self._field(field, definition["name"], common, names) for field in fields]
        self._add_class(definition["name"], body)

    def _add_class(self, name: str, body: Iterable[str]) -> None:
        self.classes.append("\n".join([f"class {name}(Message):", *body]))

    def _struct(self, field: Json, owner: str, common: dict[str, Json], names: dict[str, str]) -> str:
        """Declare the struct of a field unless it is a shared one already declared; its Python name."""
        wanted = field["type"].removeprefix("[]")
        if wanted in names and wanted in common:
            return names[wanted]
        name = wanted if wanted not in self.taken else owner + wanted
        self.taken.add(name)
        names[wanted] = name
        fields = field.get("fields") or common[wanted]["fields"]
        self._add_class(name, [self._field(inner, owner, common, names) for inner in fields])
        return name

    def _field(self, field: Json, owner: str, common: dict[str, Json], names: dict[str, str]) -> str:
        is_array = field["type"].startswith("[]")
        element = field["type"].removeprefix("[]")
        python_type = PYTHON_TYPES.get(element) or self._struct(field, owner, common, names)
        kind = element if element in PYTHON_TYPES else "struct"
        default = _default(field, is_array=is_array, python_type=python_type)
        if is_array:
            python_type, kind = f"list[{python_type}]", "[]" + kind
        if default == "None" or "nullableVersions" in field:
            python_type += " | None"
        name = snake_case(field["name"])
        return f"    {name}: Annotated[{python_type}, F({', '.join(_facts(field, kind))})] = {default}"

    def text(self) -> str:
        """The whole file, unformatted."""
        body = "\n\n\n".join(self.classes)
        typing_names = ["Annotated", "ClassVar"] if "Annotated[" in body else ["ClassVar"]
        schema_names = [name for name in ("F", "Message", "Spec") if re.search(rf"\b{name}\b", body)]
        imports = [f"from typing import {', '.join(typing_names)}", ""]
        if "default_factory" in body:
            imports += ["from msgspec import field", ""]
        id_names = [name for name in ("ZERO_UUID", "Uuid") if re.search(rf"\b{name}\b", body)]
        if id_names:
            imports += [f"from ottla.base.ids import {', '.join(id_names)}"]
        if re.search(r"\bRecords\b", body):
            schema_names.insert(2, "Records")
        imports += [f"from ottla.wire.schema import {', '.join(schema_names)}"]
        head = f'"""{self.docstring}"""\n\nfrom __future__ import annotations\n\n'
        return head + "\n".join(imports) + "\n\n\n" + body + "\n"


def _facts(field: Json, kind: str) -> list[str]:
    # A field that is only ever tagged may leave its versions to its tag.
    facts = [repr(kind), repr(field.get("versions") or field["taggedVersions"])]
    if "nullableVersions" in field:
        facts.append(f"nullable={field['nullableVersions']!r}")
    if "tag" in field:
        facts.append(f"tag={field['tag']}")
        facts.append(f"tagged={field['taggedVersions']!r}")
    if field.get("ignorable"):
        facts.append("ignorable=True")
    if "flexibleVersions" in field:
        facts.append(f"flexible={field['flexibleVersions']!r}")
    return facts


def _default(field: Json, *, is_array: bool, python_type: str) -> str:
    default = field.get("default", "")
    if default in ("null", None) or (python_type == "Records" and default == ""):
        return "None"
    if is_array:
        return "[]"
    if default == "":
        return ZERO_VALUES.get(python_type, f"field(default_factory={python_type})")
    if python_type == "bool":
        return str(default).capitalize()
    return str(int(str(default), 0)) if python_type == "int" else repr(default)


def api_module(api: str, definitions: dict[str, Json]) -> Module:
    """The file of one API: request and response."""
    module = Module(f"The {api} request and response, all versions. Made by tools/declare_messages.py.")
    module.add(definitions[f"{api}Request"])
    module.add(definitions[f"{api}Response"])
    return module


def declare(definitions: dict[str, Json]) -> dict[str, str]:
    """All generated files: path below the package, text."""
    files = {f"wire/messages/{name}.py": api_module(api, definitions).text() for name, api in APIS.items()}
    headers = Module("The headers before every request and response. Made by tools/declare_messages.py.")
    control = Module("Payloads of control records in logs. Made by tools/declare_messages.py.")
    metadata = Module("The records of the cluster metadata log. Made by tools/declare_messages.py.")
    consumer = Module(
        "Subscriptions and assignments of members of classic groups. Made by tools/declare_messages.py."
    )
    files_of_several = ((headers, HEADERS), (control, CONTROL_RECORDS), (consumer, CONSUMER_PROTOCOL))
    for module, names in files_of_several:
        for name in names:
            module.add(definitions[name])
    records = [found for found in definitions.values() if found["type"] == "metadata"]
    for definition in sorted(records, key=lambda found: int(found["apiKey"])):
        metadata.add(definition)
    files["wire/messages/headers.py"] = headers.text()
    files["wire/messages/control.py"] = control.text()
    files["wire/messages/consumer_protocol.py"] = consumer.text()
    files["metadata/records.py"] = metadata.text()
    for path, (topic, names) in COORDINATOR_RECORDS.items():
        module = Module(f"Keys and values of the records in {topic}. Made by tools/declare_messages.py.")
        for name in names:
            module.add(definitions[f"{name}Key"])
            module.add(definitions[f"{name}Value"])
        files[path] = module.text()
    return files


def formatted(text: str) -> str:
    """The text as the project's formatter wants it."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "110", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Read the definitions and write every declaration."""
    parser = argparse.ArgumentParser(description="Write message declarations from Kafka's definitions.")
    parser.add_argument("definitions", type=Path, help="folder with JSON definitions or with Kafka's jars")
    parser.add_argument("--into", type=Path, default=Path("src/ottla"), help="the package to write into")
    arguments = parser.parse_args()
    for name, text in declare(read_definitions(arguments.definitions)).items():
        (arguments.into / name).write_text(formatted(text))


if __name__ == "__main__":
    main()
