"""Rules that map the name in a client's certificate to the name of a principal (`ssl.principal.mapping.rules`).

A rule is `RULE:pattern/replacement/` with an optional `L` or `U` for lower or upper case, or `DEFAULT` for the name
itself. The first rule whose pattern matches the whole name applies. Syntax and results are those of Kafka.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.base.errors import LocalError

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None for DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The mapped name; None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._expand, name)
        if self.case == "L":
            return mapped.lower()
        return mapped.upper() if self.case == "U" else mapped

    def _expand(self, match: re.Match[str]) -> str:
        """The replacement with its references `$1`; one without a group is literal text."""

        def one(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            groups = self.pattern.groups if self.pattern is not None else 0
            digits = reference[2]
            # As in Java, `$12` is group 1 and the text 2 if there are fewer than 12 groups.
            size = len(digits)
            while size > 1 and int(digits[:size]) > groups:
                size -= 1
            number = int(digits[:size])
            return f"${digits}" if number > groups else (match[number] or "") + digits[size:]

        return _REFERENCE.sub(one, self.replacement)


class PrincipalMapping:
    """The rules of one listener, in their order."""

    def __init__(self, text: str) -> None:
        self._rules: list[Rule] = []
        for found in _SPLITTER.finditer(text.strip()):
            rule = found[1]
            parsed = _PARSER.match(rule)
            if parsed is None or parsed.end() != len(rule):
                raise LocalError(
                    f"ssl.principal.mapping.rules: {rule!r}; allowed: DEFAULT, RULE:pattern/replacement/[LU]"
                )
            default, pattern, replacement, case = parsed.group(1, 2, 3, 4)
            if default is not None:
                self._rules.append(Rule(None))
            elif pattern is not None:
                self._rules.append(Rule(_compiled(pattern), replacement, case))

    def name_of(self, subject: str) -> str | None:
        """The name for a subject; None if no rule matches, and the client must be refused."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        return None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise LocalError(f"ssl.principal.mapping.rules: pattern {pattern!r}: {error}") from error
