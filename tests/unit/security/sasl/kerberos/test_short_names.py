"""Names of users from principals; tests/compat compares them with Kafka's."""

from __future__ import annotations

import pytest

from ottla.security.sasl.kerberos.short_names import NoShortName, ShortNames, check_rules

REALM = "A.TEST"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (["DEFAULT"], "ann@A.TEST", "ann"),
        (["DEFAULT"], "kafka/host@A.TEST", "kafka"),
        (["RULE:[1:$1]"], "ann@B.TEST", "ann"),
        (["RULE:[2:$1-$2]", "DEFAULT"], "ann@A.TEST", "ann"),
        (["RULE:[2:$1-$2]", "DEFAULT"], "ann/x@A.TEST", "ann-x"),
        (["RULE:[2:$0.$2]"], "ann/x@A.TEST", "A.TEST.x"),
        (["RULE:[1:$1@$0](.*@B.TEST)s/@.*//", "DEFAULT"], "ann@B.TEST", "ann"),
        (["RULE:[1:$1](nn)", "DEFAULT"], "ann@A.TEST", "ann"),
        (["RULE:[1:$1]s/n/m/"], "ann@A.TEST", "amn"),
        (["RULE:[1:$1]s/n/m/g"], "ann@A.TEST", "amm"),
        (["RULE:[1:$1]s/(.)n/$1$11/"], "ann@A.TEST", "aa1n"),
        (["RULE:[1:$1]s/n/$0$0/g"], "ann@A.TEST", "annnn"),
        ([r"RULE:[1:$1]s/n/\$\1/"], "ann@A.TEST", "a$1n"),
        (["RULE:[1:$1]L"], "Ann@A.TEST", "ann"),
        (["RULE:[1:$1]/U"], "Ann@A.TEST", "ANN"),
        (["RULE:[1:$1]s/n/m/g/U"], "Ann@A.TEST", "AMM"),
    ],
)
def test_names(rules: list[str], principal: str, name: str) -> None:
    assert ShortNames(rules, REALM).name_of(principal) == name


@pytest.mark.parametrize(
    ("rules", "principal", "complaint"),
    [
        (["DEFAULT"], "ann@B.TEST", "no rule"),
        (["RULE:[1:$1]"], "ann/x@A.TEST", "no rule"),
        (["RULE:[1:$1](bob)"], "ann@A.TEST", "no rule"),
        ([], "ann@A.TEST", "no rule"),
        (["DEFAULT"], "a/b/c@A.TEST", "not a principal"),
        (["DEFAULT"], "a@b@A.TEST", "not a principal"),
        (["DEFAULT"], "ann", "not a principal"),
        (["RULE:[1:$1@$0]", "DEFAULT"], "ann@A.TEST", "has / or @"),
        (["RULE:[2:$1/$2]", "DEFAULT"], "ann/x@A.TEST", "has / or @"),
    ],
)
def test_principals_without_a_name(rules: list[str], principal: str, complaint: str) -> None:
    with pytest.raises(NoShortName, match=complaint):
        ShortNames(rules, REALM).name_of(principal)


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("default", "allowed: DEFAULT"),
        ("DEFAULT,", "allowed: DEFAULT"),
        ("RULE:[:$1]", "allowed: DEFAULT"),
        ("RULE:[1:$1]s/a/b", "allowed: DEFAULT"),
        ("RULE:[1:$1]LU", "allowed: DEFAULT"),
        ("RULE:[1:$1]([)", "pattern"),
        ("RULE:[1:$1]s/[/x/", "pattern"),
        ("RULE:[1:$2]", r"refers to \$2"),
        ("RULE:[1:$]", r"refers to \$;"),
        ("RULE:[1:$1]s/n/$1/", r"refers to \$1"),
        ("RULE:[1:$1]s/n/${x}/", r"refers to \$,"),
        ("RULE:[1:$1]s/n/a\\/", "refers to"),
    ],
)
def test_invalid_rules(rule: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_rules(["DEFAULT", rule])
