"""Write docs/CONFIG.md: every setting with its default, what is allowed, and what this release does with it.

python tools/config_table.py          writes the page
python tools/config_table.py --check  fails if the page is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.config import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, ConfigKey, Status
from ottla.config.own_defaults import OWN_BROKER_DEFAULTS, OWN_TOPIC_DEFAULTS, OwnDefault

PAGE = Path(__file__).parents[1] / "docs" / "CONFIG.md"

INTRODUCTION = """# Settings

Written by `tools/config_table.py` from the declarations in `src/ottla/config/`; edit those, not this page.

Names, types and defaults are Apache Kafka 4.3's, except the defaults marked **own**. What this release does
with a setting:

- **honoured**: it has its effect;
- accepted: it is checked and described, but has no effect yet; the log lists it at the start;
- **protective**: it is for protection that does not exist yet; only the default is allowed.

A broker setting can be changed by a restart only (*read-only*), for one broker while it runs (*per-broker*) or for
all brokers (*cluster-wide*). The precedence of file, environment and command line is in
`src/ottla/node/settings/config.py`.
Without a file, `group.initial.rebalance.delay.ms` is 0, as in the quick-start files of Apache Kafka.
"""


def page() -> str:
    parts = [INTRODUCTION, _own_defaults()]
    parts.append(_section("Topics", TOPIC_KEYS, OWN_TOPIC_DEFAULTS, with_scope=False))
    parts.append(_section("Brokers", BROKER_KEYS, OWN_BROKER_DEFAULTS, with_scope=True))
    parts.append(_section("Groups", GROUP_KEYS, {}, with_scope=False))
    parts.append(_section("Client metrics subscriptions", CLIENT_METRICS_KEYS, {}, with_scope=False))
    return "\n".join(parts)


def _own_defaults() -> str:
    lines = ["## Defaults of our own", "", "| setting | default | why |", "|---|---|---|"]
    for name, default in {**OWN_BROKER_DEFAULTS, **OWN_TOPIC_DEFAULTS}.items():
        lines.append(f"| `{name}` | `{default.text}` | {default.why} |")
    return "\n".join(lines) + "\n"


def _section(
    title: str, keys: Mapping[str, ConfigKey], own: Mapping[str, OwnDefault], *, with_scope: bool
) -> str:
    scope_head, scope_rule = (" | changes", "|---") if with_scope else ("", "")
    lines = [f"## {title}", ""]
    lines.append(f"| setting | default | allowed{scope_head} | this release | meaning |")
    lines.append(f"|---|---|---{scope_rule}|---|---|")
    lines += _rows(keys.values(), own, with_scope=with_scope)
    return "\n".join(lines) + "\n"


def _rows(keys: Iterable[ConfigKey], own: Mapping[str, OwnDefault], *, with_scope: bool) -> list[str]:
    rows = []
    for key in keys:
        if key.internal:
            continue
        default = "null" if key.default is None else f"`{key.default}`" if key.default else "empty"
        mark = " **own**" if key.name in own else ""
        status = key.status.value if key.status is Status.ACCEPTED else f"**{key.status.value}**"
        scope = f" | {key.scope.value}" if with_scope else ""
        rows.append(f"| `{key.name}` | {default}{mark} | {key.allowed}{scope} | {status} | {key.doc} |")
    return rows


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
