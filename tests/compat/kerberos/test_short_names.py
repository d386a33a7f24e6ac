"""The names of users are those of Apache Kafka's KerberosShortNamer, for many rules and principals."""

from __future__ import annotations

import base64
import subprocess
from itertools import product
from random import Random

import pytest

from ottla.security.sasl.kerberos.short_names import ShortNames
from tests.compat.java_tools import java_command

pytestmark = pytest.mark.compat
REALM = "A.TEST"
PRINCIPALS = [
    "ann@A.TEST",
    "Ann.Lee@A.TEST",
    "ann/admin@A.TEST",
    "kafka/host1.a.test@A.TEST",
    "app-12/x.y@B.TEST",
    "ann@B.TEST",
    "\u00c9va@A.TEST",
    "a\\/b@A.TEST",
    "a/b/c@A.TEST",
    "a@b@A.TEST",
    "@A.TEST",
]
RULES = [
    ["DEFAULT"],
    ["RULE:[1:$1]"],
    ["RULE:[2:$1]", "DEFAULT"],
    ["RULE:[2:$1-$2]L", "RULE:[1:$1]/U"],
    ["RULE:[1:$1@$0](.*@B.TEST)s/@.*//", "DEFAULT"],
    ["RULE:[1:$1@$0](a.*@A.TEST)s/@.*/x/g/U"],
    ["RULE:[2:$1;$2](.*;admin)s/;admin$//", "RULE:[2:$2]s/[.]/_/g"],
    ["RULE:[1:$1]s/n/m/"],
    ["RULE:[1:$1]s/n/m/g"],
    ["RULE:[1:$1]s/n/m/g/L"],
    ["RULE:[1:$1]/"],
    ["RULE:[2:$0.$1.$2]"],
    ["RULE:[2:$1/$2]"],
    ["RULE:[1:$1@$0]"],
    ["RULE:[1:plain]"],
    ["RULE:[1:]"],
    ["RULE:[2:$1]()", "DEFAULT"],
    ["RULE:[1:$1](ann)"],
    ["RULE:[1:$1](nn)"],
    ["RULE:[1:$1]s/x*/-/g"],
    ["RULE:[1:$1]s/x*/-/"],
    ["RULE:[2:$2]s/([a-z]+)[.].*/$1/"],
    ["RULE:[2:$2]s/([a-z])([a-z]+)[.].*/$2$1$12/"],
    ["RULE:[2:$2]s/([a-z]+).*/<$0>/"],
    [r"RULE:[1:$1]s/n/\$1/"],
    [r"RULE:[1:$1]s/n/a\b/"],
    ["RULE:[3:$1]"],
    ["RULE:[0:$0]"],
]
INVALID = [
    "default",
    "DEFAULTX",
    "RULE:[1:$1",
    "RULE:[:$1]",
    "RULE:[x:$1]",
    "RULE:[1:$1]X",
    "RULE:[1:$1]s/a/b",
    "RULE:[1:$1]s/a/b/gg",
    "RULE:[1:$1](a",
    "RULE:[1:$1]([)",
    "RULE:[1:$2]",
    "RULE:[1:$]",
    "RULE:[1:$1]s/n/$1/",
    "RULE:[1:$1]s/n/$/",
    "RULE:[1:$1]s/n/a\\/",
]
"""Kafka refuses the first ones when it starts, the others for each principal that reaches them."""


def named(cases: list[tuple[str, list[str]]]) -> list[str | None]:
    """What Kafka makes of each principal with its rules; None if it refuses."""
    lines = []
    for principal, rules in cases:
        words = (REALM, principal, *rules)
        lines.append(" ".join(base64.b64encode(word.encode()).decode() for word in words))
    ran = subprocess.run(
        java_command("ShortNames"),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = ran.stdout.splitlines()
    assert len(answers) == len(cases)
    return [None if answer == "!" else base64.b64decode(answer[1:]).decode() for answer in answers]


def own_name(principal: str, rules: list[str]) -> str | None:
    try:
        return ShortNames(rules, REALM).name_of(principal)
    except ValueError:
        return None


@pytest.mark.usefixtures("kafka_jars")
def test_each_principal_has_the_name_that_kafka_gives_it() -> None:
    random = Random(7)
    singles = [rules[0] for rules in RULES]
    chosen = RULES + [random.sample(singles, 3) for _ in range(200)]
    cases = list(product(PRINCIPALS, chosen))
    expected = named(cases)
    assert len({name for name in expected if name is not None}) > 20
    found = [own_name(*case) for case in cases]
    assert [each for each in zip(cases, expected, found, strict=True) if each[1] != each[2]] == []


@pytest.mark.usefixtures("kafka_jars")
def test_kafka_and_ottla_refuse_the_same_rules() -> None:
    assert named([("ann@A.TEST", [rule]) for rule in INVALID]) == [None] * len(INVALID)
    for rule in INVALID:
        with pytest.raises(ValueError, match=r"allowed:|refers to|pattern"):
            ShortNames([rule], REALM)
