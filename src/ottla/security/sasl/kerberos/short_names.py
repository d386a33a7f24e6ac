"""Rules that turn a Kerberos principal into the name of a user (`sasl.kerberos.principal.to.local.rules`).

`DEFAULT` takes the first component of a principal of the default realm. `RULE:[n:format](pattern)s/from/to/g/L` is for
principals with n components: the format refers to the realm as `$0` and to the components as `$1` and `$2`, the result
must match the pattern, and the substitution is applied to it, once or with `g` everywhere. `L` and `U` at the end are
for lower and upper case. The first rule that matches applies. Syntax and results are those of Kafka. A rule that would
fail for every principal, such as one with a reference to a missing component, is refused when it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<count>[0-9]+):(?P<format>[^\]]*)\](?:\((?P<pattern>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_REFERENCE: Final = re.compile(r"\\(.)|\$([0-9]*)|\\", re.DOTALL)
_NOT_SIMPLE: Final = re.compile(r"[/@]")


class NoShortName(ValueError):
    """No rule gives the principal a name."""


class _Rule(NamedTuple):
    text: str
    components: int
    format: str
    pattern: re.Pattern[str] | None
    old: re.Pattern[str] | None
    new: str
    limit: int
    """The number of substitutions; 0 for all."""
    case: str

    def apply(self, parts: list[str]) -> str | None:
        """The name for the realm and the components; None if the rule does not match."""
        if len(parts) - 1 != self.components:
            return None
        name = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        if self.pattern is not None and self.pattern.fullmatch(name) is None:
            return None
        if self.old is not None:
            name = self.old.sub(self._expand, name, count=self.limit)
        _check_simple(name, self.text)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name

    def _expand(self, match: re.Match[str]) -> str:
        def one(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            digits = reference[2]
            size = _group_digits(digits, match.re.groups)
            return (match[int(digits[:size])] or "") + digits[size:]

        return _REFERENCE.sub(one, self.new)


class ShortNames:
    """The rules of one listener, in their order."""

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        self._rules = [_parsed(text) for text in rules]
        self._default_realm = default_realm

    def name_of(self, principal: str) -> str:
        """The name of the user; NoShortName if no rule gives one, and the client must be refused."""
        parsed = _PRINCIPAL.fullmatch(principal)
        if parsed is None:
            raise NoShortName(f"{principal} is not a principal with one or two components and a realm")
        first, second, realm = parsed.groups()
        parts = [realm, first] if second is None else [realm, first, second]
        for rule in self._rules:
            name = self._default(parts) if rule is None else rule.apply(parts)
            if name is not None:
                return name
        raise NoShortName(f"no rule of sasl.kerberos.principal.to.local.rules matches {principal}")

    def _default(self, parts: list[str]) -> str | None:
        return parts[1] if parts[0] == self._default_realm else None


def check_rules(rules: Iterable[str]) -> None:
    """Raise ValueError if one is not a rule."""
    for text in rules:
        _parsed(text)


def _parsed(text: str) -> _Rule | None:
    """The rule; None for DEFAULT."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r}; allowed: DEFAULT, RULE:[n:format](pattern)s/from/to/g/L or with U")
    if found["default"] is not None:
        return None
    rule = _Rule(
        text,
        int(found["count"]),
        found["format"],
        _compiled(found["pattern"]),
        _compiled(found["old"]),
        found["new"] or "",
        0 if found["all"] else 1,
        found["case"] or "",
    )
    for parameter in _PARAMETER.finditer(rule.format):
        if not parameter[1] or int(parameter[1]) > rule.components:
            raise ValueError(f"{text!r} refers to {parameter[0]}; allowed: $0 to ${rule.components}")
    groups = 0 if rule.old is None else rule.old.groups
    for reference in _REFERENCE.finditer(rule.new):
        if reference[1] is None and not _group_digits(reference[2] or "", groups):
            raise ValueError(f"{text!r} refers to {reference[0]}, which is not a group of its pattern")
    return rule


def _group_digits(digits: str, groups: int) -> int:
    """How many of the digits are the number of a group; as in Java, `$12` is group 1 and a 2 with one group."""
    if not digits or int(digits[0]) > groups:
        return 0
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    return size


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r}: {error}") from error


def _check_simple(name: str, rule: str) -> None:
    if _NOT_SIMPLE.search(name) is not None:
        raise NoShortName(f"{rule} gives the name {name}, which has / or @")
