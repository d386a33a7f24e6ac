"""Responses as Apache Kafka 4.3.1 gives them; `tests/compat/differential/users.py` compares both."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.controller.security.scram_users import decide_alter, describe, refuse_alter
from ottla.controller.settings.features import initial_records
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ottla.security.scram_keys import ScramMechanism, derive_keys
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.support.metadata import replayed


def stored(name: str, mechanism: int = 1, iterations: int = 4096) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(name=name, mechanism=mechanism, iterations=iterations)


IMAGE = replayed([*initial_records(), stored("alice"), stored("alice", 2, 8192), stored("bob", 2)])


def upsert(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


def delete(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def codes(response: AlterUserScramCredentialsResponse) -> dict[str, int]:
    return {each.user: each.error_code for each in response.results}


def test_only_the_stored_key_and_the_server_key_are_stored() -> None:
    records, response = decide_alter(IMAGE, AlterUserScramCredentialsRequest(upsertions=[upsert("carol", 2)]))
    keys = derive_keys(ScramMechanism.SCRAM_SHA_512, b"salted")
    assert records == [
        UserScramCredentialRecord(
            name="carol",
            mechanism=2,
            salt=b"salt",
            stored_key=keys.stored_key,
            server_key=keys.server_key,
            iterations=4096,
        )
    ]
    assert codes(response) == {"carol": ErrorCode.NONE}
    assert response.results[0].error_message is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("x", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("x", -1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("x", 1, 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("x", 1, 16_384), ErrorCode.NONE),
        (upsert("x", 1, 16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("alice"), ErrorCode.NONE),
        (delete("alice"), ErrorCode.NONE),
        (delete("bob", 1), ErrorCode.RESOURCE_NOT_FOUND),
        (delete("unknown"), ErrorCode.RESOURCE_NOT_FOUND),
        (delete("alice", 9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_one_change(change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode) -> None:
    is_deletion = isinstance(change, ScramCredentialDeletion)
    request = AlterUserScramCredentialsRequest(
        deletions=[change] if isinstance(change, ScramCredentialDeletion) else [],
        upsertions=[change] if isinstance(change, ScramCredentialUpsertion) else [],
    )
    records, response = decide_alter(IMAGE, request)
    assert codes(response) == {change.name: code}
    assert (response.results[0].error_message is None) == (code == ErrorCode.NONE)
    assert len(records) == (code == ErrorCode.NONE)
    if records and is_deletion:
        assert records == [RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)]


def test_a_user_can_be_altered_once() -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[delete("alice"), delete("bob", 2), delete("bob", 2), delete("unknown"), delete("unknown")],
        upsertions=[upsert("alice"), upsert("carol"), upsert("carol", 2), upsert("dave")],
    )
    records, response = decide_alter(IMAGE, request)
    assert codes(response) == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
        "unknown": ErrorCode.RESOURCE_NOT_FOUND,
        "carol": ErrorCode.DUPLICATE_RESOURCE,
        "dave": ErrorCode.NONE,
    }
    assert [getattr(each, "name", None) for each in records] == ["dave"]


def test_an_old_metadata_version() -> None:
    _, response = decide_alter(MetadataImage(), AlterUserScramCredentialsRequest(upsertions=[upsert("x")]))
    assert codes(response) == {"x": ErrorCode.UNSUPPORTED_VERSION}


def test_refusal_names_each_user_once() -> None:
    request = AlterUserScramCredentialsRequest(deletions=[delete("b")], upsertions=[upsert("a"), upsert("b")])
    response = refuse_alter(request, ErrorCode.NOT_CONTROLLER)
    assert [(each.user, each.error_code) for each in response.results] == [("a", 41), ("b", 41)]


def test_describe() -> None:
    everyone = describe(IMAGE, DescribeUserScramCredentialsRequest(users=None))
    assert {
        each.user: [(i.mechanism, i.iterations) for i in each.credential_infos] for each in everyone.results
    } == {
        "alice": [(1, 4096), (2, 8192)],
        "bob": [(2, 4096)],
    }
    assert describe(IMAGE, DescribeUserScramCredentialsRequest(users=[])) == everyone
    named = [UserName(name=name) for name in ("bob", "unknown", "alice", "alice")]
    response = describe(IMAGE, DescribeUserScramCredentialsRequest(users=named))
    assert [(each.user, each.error_code) for each in response.results] == [
        ("bob", ErrorCode.NONE),
        ("unknown", ErrorCode.RESOURCE_NOT_FOUND),
        ("alice", ErrorCode.DUPLICATE_RESOURCE),
    ]
