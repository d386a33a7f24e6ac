"""`ssl.principal.mapping.rules`: examples from Kafka's documentation and tests."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.security.tls.mapping import PrincipalMapping

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:^CN=(\\w+).*$/user-$1/,DEFAULT", DUKE, "user-Duke"),
        ("RULE:^cn=(.*?),.*$/$1/L , DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),ou=a.*$/$1/, RULE:^CN=(.*?),OU=S.*$/second-$1/", DUKE, "second-Duke"),
        ("RULE:^CN=(.*?),.*$/$1$2/", DUKE, "Duke$2"),
        ("RULE:^CN=(.*?),.*$/$12/", DUKE, "Duke2"),
        ("RULE:" + "(.)" * 12 + "/$12$1/", "abcdefghijkl", "la"),
        (r"RULE:^CN=(.*?),.*$/\$1 $1/", DUKE, "$1 Duke"),
        (r"RULE:^CN=(.*?)\/x$/$1/", "CN=a/x", "a"),
        ("RULE:.*/x/", "a", "xx"),
        ("RULE:^CN=(.*?)$/$1/L", DUKE, "duke,ou=serviceusers,o=org,c=us"),
        ("RULE:CN=Duke/x/", DUKE, None),
        ("", DUKE, None),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_applies(
    rules: str, subject: str, name: str | None
) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


@pytest.mark.parametrize(
    "rules", ["default", "DEFAULT/L", "DEFAULT/", "RULE:CN=(.*?)/$1", "RULE:a/b/LU", "RULE:(/b/"]
)
def test_invalid_rules_are_refused(rules: str) -> None:
    with pytest.raises(LocalError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
