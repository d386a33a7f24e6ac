"""The tables against what Apache Kafka 4.3.1's own tables say (`kafka_4_3_1.tsv`, dumped from its jars)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from ottla.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    BrokerLayers,
    ConfigType,
    parse,
    to_text,
    topic_defaults,
)
from ottla.config.own_defaults import OWN_BROKER_DEFAULTS, OWN_TOPIC_DEFAULTS

SOURCE = Path(__file__).parents[3] / "src" / "ottla"
TABLES = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client-metrics": CLIENT_METRICS_KEYS,
}
OWN = {"broker": OWN_BROKER_DEFAULTS, "topic": OWN_TOPIC_DEFAULTS}


class Fact(NamedTuple):
    kind: str
    name: str
    type: str
    default: str
    importance: str
    mode: str
    internal: str
    allowed: str


FACTS = [
    Fact(*line.split("\t"))
    for line in (Path(__file__).parent / "kafka_4_3_1.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def test_exactly_the_settings_of_kafka_are_declared() -> None:
    for kind, table in TABLES.items():
        assert set(table) == {fact.name for fact in FACTS if fact.kind == kind}


def _declared_differently(fact: Fact) -> list[str]:
    key = TABLES[fact.kind][fact.name]
    default = {"(null)": None, "(required)": None, "(empty)": ""}.get(fact.default, fact.default)
    own = OWN.get(fact.kind, {}).get(fact.name)
    right = {
        "type": key.type is ConfigType[fact.type],
        "importance": key.importance == fact.importance,
        "internal": key.internal == (fact.internal == "internal"),
        "required": key.required == (fact.default == "(required)"),
        "scope": fact.mode in ("-", key.scope),
        "default": key.default == default if own is None else key.default == own.text != default,
    }
    return [f"{fact.kind} {fact.name}: {what}" for what, agrees in right.items() if not agrees]


def test_declarations_agree_with_kafka() -> None:
    assert [difference for fact in FACTS for difference in _declared_differently(fact)] == []


def test_ranges_end_where_kafkas_do() -> None:
    ranges = 0
    for fact in FACTS:
        match = re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\]", fact.allowed)
        if match is None:
            continue
        ranges += 1
        key = TABLES[fact.kind][fact.name]
        decimal = key.type is ConfigType.DOUBLE
        low, high = (None if end is None else (float(end) if decimal else int(end)) for end in match.groups())
        step = 0.001 if decimal else 1
        assert low is not None
        assert key.check.complaint(low) is None, fact.name
        assert key.check.complaint(low - step) is not None, fact.name
        if high is not None:
            assert key.check.complaint(high) is None, fact.name
            assert key.check.complaint(high + step) is not None, fact.name
    assert ranges > 200


def test_every_default_is_allowed_and_formatted_as_the_same_text() -> None:
    for table in TABLES.values():
        for key in table.values():
            if key.default is not None:
                assert to_text(parse(key, key.default)) == key.default, key.name


def test_every_setting_is_documented_in_a_sentence() -> None:
    for table in TABLES.values():
        for key in table.values():
            assert 15 <= len(key.doc) <= 140
            assert key.doc.endswith(".")


def test_secrets_protect() -> None:
    secrets = [key for key in BROKER_KEYS.values() if key.sensitive]
    assert len(secrets) == 10
    assert all(key.protective or key.honoured for key in secrets), "none is accepted without effect"


def test_topic_defaults_follow_from_broker_defaults() -> None:
    values = topic_defaults(BrokerLayers(BrokerConfig()))
    for name, key in TOPIC_KEYS.items():
        assert to_text(values[name]) == key.default, name


def test_honoured_settings_are_read_by_some_code() -> None:
    """Honoured means that some code outside the tables reads the setting, or the topic setting it feeds."""
    files = [path for path in SOURCE.rglob("*.py") if path.parent.name != "config"]
    code = "\n".join(path.read_text() for path in files)
    fed = {broker: key.name for key in TOPIC_KEYS.values() for broker, _ in key.synonyms}
    unread = [
        name
        for name, key in BROKER_KEYS.items()
        if key.honoured
        and f'"{name}"' not in code
        and not (name in fed and re.search(rf"\.{fed[name].replace('.', '_')}\b", code))
    ]
    assert unread == []


def test_importing_the_tables_is_cheap() -> None:
    """Start-up budget: little memory, and no module outside the standard library but msgspec."""
    script = (
        "import sys, tracemalloc, msgspec, ottla.base.errors\n"
        "before = set(sys.modules); tracemalloc.start()\n"
        "import ottla.config\n"
        "size = tracemalloc.get_traced_memory()[0]\n"
        "new = {m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "assert new <= {'ottla', 'msgspec'}, new\n"
        "assert size < 3_000_000, size\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
