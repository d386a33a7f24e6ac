"""The authorizer of Ottla and Kafka's StandardAuthorizer, with the same random entries, decide the same.

Names that begin with `*` are left out: Kafka does not apply the entries of the literal `*` to them, so an entry that
denies everything would not deny them. Ottla applies them (docs/GAPS.md).
"""

from __future__ import annotations

import random
import subprocess
import uuid

import pytest

from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.acls.authorizer import AclAuthorizer
from ottla.security.acls.hosts import host_text
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from tests.compat.java_tools import java_command

pytestmark = pytest.mark.compat

CLUSTERS = 150
CHANGES = 12
CHECKS = 20
SUPER_USER = "User:admin"
NAMES = ["a", "ab", "abc", "abd", "b", "hardcode", "a b", "ü", "*"]
PRINCIPALS = ["User:a", "User:b", "User:*", "Group:a", SUPER_USER, "User:a:b"]
HOSTS = ["*", "10.0.0.1", "0:0:0:0:0:0:0:1", "::1", "fe80:0:0:0:0:0:0:2"]
ADDRESSES = ["10.0.0.1", "10.0.0.2", "::1", "fe80::2", "::ffff:10.0.0.1"]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]
OPERATIONS = [each for each in Operation if each > Operation.ALL]


class Session:
    """Commands for Kafka's authorizer, and the decisions of ours."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.commands: list[str] = []
        self.decisions: list[int] = []

    def play(self) -> None:
        rng = self._rng
        for _ in range(CLUSTERS):
            allowed = rng.random() < 0.5
            self._authorizer = AclAuthorizer([SUPER_USER], allow_without_entries=allowed)
            self._authorizer.loaded = True
            self._entries: dict[uuid.UUID, AccessControlEntryRecord] = {}
            self._command("new", SUPER_USER, str(allowed).lower())
            for number in range(CHANGES):
                self._change(number)
                for _ in range(CHECKS):
                    self._check()

    def _command(self, *words: object) -> None:
        self.commands.append("\t".join(map(str, words)))

    def _change(self, number: int) -> None:
        rng = self._rng
        if self._entries and rng.random() < 0.3:
            entry_id = rng.choice(list(self._entries))
            del self._entries[entry_id]
            self._command("remove", entry_id.int)
        else:
            entry_id = uuid.UUID(int=number + 1)
            fields = (
                rng.choice(TYPES),
                rng.choice(NAMES),
                rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
                rng.choice(PRINCIPALS),
                rng.choice(HOSTS),
                rng.choice([Operation.ALL, *OPERATIONS[:5]]),
                rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
            )
            new = AccessControlEntryRecord(entry_id, *fields)
            if any(_content(each) == _content(new) for each in self._entries.values()):
                return  # Kafka's authorizer refuses equal entries with two ids
            self._entries[entry_id] = new
            self._command("add", entry_id.int, *(f if isinstance(f, str) else int(f) for f in fields))
        index = self._authorizer.index
        self._authorizer.index = index.updated(dict(self._entries), [entry_id])

    def _check(self) -> None:
        rng = self._rng
        principal = rng.choice([each for each in PRINCIPALS if each != "User:*"])
        kind, _, name = principal.partition(":")
        address, operation = rng.choice(ADDRESSES), rng.choice(OPERATIONS)
        resource_type, resource = rng.choice(TYPES), rng.choice([*NAMES, "abcd", "zzz"])
        host = host_text(address)
        if rng.random() < 0.2:
            self._command("any", kind, name, address, int(operation), int(resource_type))
            found = self._authorizer.allows_any(principal, host, "CLIENTS", operation, resource_type)
        else:
            self._command("may", kind, name, address, int(operation), int(resource_type), resource)
            operations = self._authorizer.operations(principal, host, "CLIENTS", resource_type, resource)
            found = bool(operations >> operation & 1)
        self.decisions.append(int(found))


def _content(entry: AccessControlEntryRecord) -> list[object]:
    return [getattr(entry, name) for name in entry.__struct_fields__ if name != "id"]


def test_random_entries_are_applied_as_by_kafka(kafka_jars: None) -> None:
    session = Session(15)
    session.play()
    text = "\n".join(session.commands) + "\n"
    done = subprocess.run(
        java_command("Authorize"), input=text.encode(), capture_output=True, check=True, timeout=120
    )
    expected = [int(line) for line in done.stdout.decode().split()]
    assert len(expected) == len(session.decisions) == CLUSTERS * CHANGES * CHECKS
    asked = [each for each in session.commands if each.startswith(("may", "any"))]
    wrong = [
        (question, theirs, ours)
        for question, theirs, ours in zip(asked, expected, session.decisions, strict=True)
        if theirs != ours
    ]
    assert not wrong, wrong[:10]
    share = sum(expected) / len(expected)
    assert 0.1 < share < 0.9, "both results occur"
