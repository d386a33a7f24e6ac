from __future__ import annotations

import pytest

from ottla.broker.authorization import AclAuthorization
from ottla.config import ConfigRefused
from ottla.node.security.authorization import make_authorization
from ottla.node.settings.authorizer_config import AuthorizerConfig
from ottla.node.settings.config import assemble

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def authorizer(**settings: str) -> AuthorizerConfig | None:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return assemble(
        {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
         "controller.quorum.voters": "1@127.0.0.1:9093",
         "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", **names}, {}
    ).authorizer  # fmt: skip


def test_there_is_no_authorizer_by_default() -> None:
    assert authorizer() is None
    assert authorizer(authorizer_class_name="") is None
    assert not make_authorization(None).enabled


def test_the_settings_of_the_authorizer() -> None:
    found = authorizer(
        authorizer_class_name=STANDARD,
        super_users="User:admin; User:CN=broker,O=x",
        allow_everyone_if_no_acl_found="TRUE",
    )
    assert found == AuthorizerConfig(
        frozenset({"User:admin", "User:CN=broker,O=x"}),
        allow_without_entries=True,
        early_start_listeners=frozenset({"CONTROLLER"}),
    )
    assert isinstance(make_authorization(found), AclAuthorization)


def test_the_defaults_of_an_authorizer() -> None:
    found = authorizer(authorizer_class_name=STANDARD)
    assert found is not None
    assert found.super_users == frozenset()
    assert not found.allow_without_entries


def test_listeners_that_start_early() -> None:
    found = authorizer(authorizer_class_name=STANDARD, early_start_listeners="plaintext")
    assert found is not None
    assert found.early_start_listeners == {"PLAINTEXT"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"authorizer_class_name": "org.example.Other"}, "org.example.Other.*StandardAuthorizer"),
        ({"super_users": "User:admin"}, "super.users is set, but authorizer.class.name is not"),
        ({"allow_everyone_if_no_acl_found": "false"}, "every request would be authorized"),
        ({"authorizer_class_name": STANDARD, "super_users": "admin"}, "super.users.*'admin'"),
        ({"authorizer_class_name": STANDARD, "allow_everyone_if_no_acl_found": "yes"}, "true or false"),
        ({"early_start_listeners": "NONE"}, "NONE is not in listeners"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigRefused, match=text):
        authorizer(**settings)
