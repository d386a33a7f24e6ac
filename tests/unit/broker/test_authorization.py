from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from ottla.broker.authorization import AclAuthorization, Authorization
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import NoOpRecord, RemoveAccessControlEntryRecord
from ottla.security.acls.authorizer import AclAuthorizer
from ottla.security.acls.operations import SUPPORTED, bits
from ottla.security.principal import NODE, Principal, user
from ottla.security.resources import CLUSTER, Operation, ResourceType
from ottla.wire.apis import ApiKey
from tests.support.acls import DENY, LITERAL, entry

TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
LISTENER = Listener("CLIENTS", "127.0.0.1", 9092, "127.0.0.1", 9092)


def origin(name: str = "bob", ip: str = "127.0.0.1") -> Origin:
    return Origin(LISTENER, ip, 1234, user(name))


class Setup:
    """An authorization that follows images made of records."""

    def __init__(self, *records: object, super_users: tuple[str, ...] = ()) -> None:
        self.authorization = AclAuthorization(AclAuthorizer(super_users))
        self.image: MetadataImage = EMPTY_IMAGE
        self.follow(*records)

    def follow(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + 1, 1)
        self.authorization.changed(delta, self.image, loaded=True)


def test_without_an_authorizer_everything_is_allowed() -> None:
    authorization = Authorization()
    assert not authorization.enabled
    assert authorization.allows(origin(), WRITE, TOPIC, "foo")
    assert authorization.allows_any(origin(), WRITE, TOPIC)
    assert authorization.operations(origin(), TOPIC, "foo") == SUPPORTED[TOPIC]


def test_entries_decide() -> None:
    authorization = Setup(entry(TOPIC, "foo", principal="User:bob", operation=READ)).authorization
    assert authorization.enabled
    client = origin()
    assert authorization.allows(client, READ, TOPIC, "foo")
    assert authorization.allows(client, DESCRIBE, TOPIC, "foo")
    assert not authorization.allows(client, WRITE, TOPIC, "foo")
    assert not authorization.allows(client, READ, TOPIC, "bar")
    assert not authorization.allows(client, READ, ResourceType.GROUP, "foo")
    assert not authorization.allows(origin("eve"), READ, TOPIC, "foo")
    assert authorization.operations(client, TOPIC, "foo") == bits([READ, DESCRIBE])


def test_the_operations_of_a_super_user_are_those_of_the_type() -> None:
    authorization = Setup(super_users=("User:bob",)).authorization
    assert (
        authorization.operations(origin(), ResourceType.CLUSTER, CLUSTER) == SUPPORTED[ResourceType.CLUSTER]
    )


def test_addresses_are_compared_in_the_form_of_java() -> None:
    authorization = Setup(
        entry(TOPIC, "foo", LITERAL, "User:bob", "0:0:0:0:0:0:0:1", READ, DENY),
        entry(TOPIC, "foo", LITERAL, "User:bob", "*", READ),
    ).authorization
    assert not authorization.allows(origin(ip="::1"), READ, TOPIC, "foo")
    assert authorization.allows(origin(ip="127.0.0.1"), READ, TOPIC, "foo")


def test_a_revoked_right_ends_at_once_for_a_client_that_has_used_it() -> None:
    write = entry(TOPIC, "foo", principal="User:bob", operation=WRITE)
    setup = Setup(write)
    client, authorization = origin(), setup.authorization
    assert authorization.allows(client, WRITE, TOPIC, "foo")
    assert authorization.allows_any(client, WRITE, TOPIC)
    epoch = authorization.epoch
    setup.follow(RemoveAccessControlEntryRecord(id=write.id))
    assert authorization.epoch != epoch
    assert not authorization.allows(client, WRITE, TOPIC, "foo")
    assert not authorization.allows_any(client, WRITE, TOPIC)


def test_the_epoch_changes_only_with_the_entries() -> None:
    setup = Setup(NoOpRecord())
    epoch = setup.authorization.epoch
    setup.follow(NoOpRecord())
    assert setup.authorization.epoch == epoch
    setup.follow(entry(TOPIC, "foo"))
    assert setup.authorization.epoch != epoch


def test_decisions_made_before_the_entries_were_loaded_are_not_kept() -> None:
    authorization = AclAuthorization(AclAuthorizer())
    client = origin()
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(entry(TOPIC, "foo", operation=READ))
    image = delta.apply(0, 1)
    authorization.changed(delta, image, loaded=False)
    assert not authorization.allows(client, READ, TOPIC, "foo")
    authorization.changed(MetadataDelta(image), image, loaded=True)
    assert authorization.allows(client, READ, TOPIC, "foo")


def test_requests_of_this_node_are_allowed_by_the_identity_of_their_principal() -> None:
    authorization = Setup().authorization
    this_node = Origin(LISTENER, "127.0.0.1", None, NODE)
    assert authorization.allows(this_node, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER)
    assert authorization.allows_any(this_node, WRITE, TOPIC)
    forged = Origin(LISTENER, "127.0.0.1", None, Principal(NODE.type, NODE.name))
    assert not authorization.allows(forged, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER)
    assert not authorization.allows_any(forged, WRITE, TOPIC)


@pytest.fixture
def all_levels() -> Iterator[None]:
    """The log contains events of all levels, whatever other tests have configured."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    yield
    structlog.configure(**before)


def test_denied_requests_are_logged_with_level_info_and_allowed_ones_with_debug(all_levels: None) -> None:
    with capture_logs() as lines:
        authorization = Setup(entry(TOPIC, "foo", operation=READ)).authorization
        client = origin()
        client.api_key = ApiKey.LIST_OFFSETS
        authorization.allows(client, WRITE, TOPIC, "foo")
        authorization.allows(client, DESCRIBE, TOPIC, "foo")
    common = {
        "logger": "kafka.authorizer.logger",
        "principal": "User:bob",
        "host": "127.0.0.1",
        "resource": "Topic:LITERAL:foo",
        "request": "ListOffsets",
    }
    assert lines == [
        {"event": "denied", "log_level": "info", "operation": "WRITE", **common},
        {"event": "allowed", "log_level": "debug", "operation": "DESCRIBE", **common},
    ]


def test_resources_that_are_only_left_out_are_not_logged(all_levels: None) -> None:
    with capture_logs() as lines:
        authorization = Setup(entry(TOPIC, "foo", operation=READ)).authorization
        authorization.allows(origin(), WRITE, TOPIC, "foo", quiet=True)
        authorization.allows(origin(), READ, TOPIC, "foo", quiet=True)
        authorization.operations(origin(), TOPIC, "foo")
    assert lines == []


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_names_that_are_not_kept_are_decided_each_time(name: str) -> None:
    setup = Setup(entry(TOPIC, "x" * 300, operation=READ))
    client = origin()
    for _ in range(2):
        assert setup.authorization.allows(client, READ, TOPIC, name) is bool(name)
