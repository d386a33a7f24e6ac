from __future__ import annotations

import pytest
from msgspec.structs import replace

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.broker.authorization import AclAuthorization, Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k29_describe_acls import DescribeAcls
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.security.acls.authorizer import AclAuthorizer
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.support.acls import LITERAL, PREFIXED, entry
from tests.support.metadata import replayed

TOPIC = ResourceType.TOPIC
IMAGE = replayed(
    [
        entry(TOPIC, "b", LITERAL, "User:bob", operation=Operation.WRITE),
        entry(TOPIC, "a", PREFIXED, "User:bob"),
        entry(TOPIC, "b", LITERAL, "User:alice", operation=Operation.READ),
        entry(TOPIC, "a", LITERAL, "User:bob"),
    ]
)
EVERYTHING = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


def describe(
    request: DescribeAclsRequest, authorization: Authorization | None = None
) -> DescribeAclsResponse:
    handler = DescribeAcls(MetadataCache(IMAGE), authorization or _allowing("User:ANONYMOUS"))
    origin = Origin(Listener("PLAINTEXT", "", 0, "", 0), "127.0.0.1", 1)
    return handler.handle(request, Call(3, 1, None, origin))


def _allowing(*super_users: str) -> Authorization:
    authorizer = AclAuthorizer(super_users)
    authorizer.loaded = True
    return AclAuthorization(authorizer)


def test_entries_are_listed_by_resource_in_one_order() -> None:
    response = describe(EVERYTHING)
    assert (response.error_code, response.error_message) == (0, "")
    found = [(each.resource_name, each.pattern_type, len(each.acls)) for each in response.resources]
    assert found == [("a", LITERAL, 1), ("a", PREFIXED, 1), ("b", LITERAL, 2)]
    assert [each.principal for each in response.resources[2].acls] == ["User:alice", "User:bob"]


def test_a_filter_selects() -> None:
    response = describe(replace(EVERYTHING, principal_filter="User:alice"))
    assert [each.resource_name for each in response.resources] == ["b"]
    assert not describe(replace(EVERYTHING, operation=99)).resources


def test_without_an_authorizer_there_are_no_entries() -> None:
    response = describe(EVERYTHING, Authorization())
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message
    assert not response.resources


def test_a_client_without_the_right_sees_no_entries() -> None:
    response = describe(EVERYTHING, _allowing())
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_message
    assert not response.resources


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_an_unknown_field_closes_the_connection(field: str, allowed: bool) -> None:
    with pytest.raises(RemoteProtocolError):
        describe(replace(EVERYTHING, **{field: 0}), None if allowed else _allowing())
