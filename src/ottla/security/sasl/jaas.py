"""Parser of `sasl.jaas.config`: one login module of Kafka or Java with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";

Only the class names of these login modules are accepted, also behind the name of a package in which Kafka's client is
included; they select no code. Error messages contain no values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.security.sasl.exchange import GSSAPI, OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

_PACKAGE: Final = "org.apache.kafka.common.security."
_MODULES: Final = {
    PLAIN: f"{_PACKAGE}plain.PlainLoginModule",
    SCRAM_SHA_256: f"{_PACKAGE}scram.ScramLoginModule",
    SCRAM_SHA_512: f"{_PACKAGE}scram.ScramLoginModule",
    OAUTHBEARER: f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_USER_PREFIX: Final = "user_"
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[=;])|(?P<word>[^\s=;"']+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class Login(NamedTuple):
    """A login module and its options."""

    module: str
    options: Mapping[str, str]

    @property
    def users(self) -> dict[str, str]:
        """The passwords of the users of PlainLoginModule on a server."""
        return {
            name.removeprefix(_USER_PREFIX): password
            for name, password in self.options.items()
            if name.startswith(_USER_PREFIX)
        }


def parse_jaas(text: str, mechanism: str) -> Login:
    """Parse the login configuration of a mechanism; ValueError if it is not one."""
    tokens = _tokens(text)
    if len(tokens) < 3:
        raise ValueError("it needs a login module, a control flag, options and a semicolon")
    module, flag = tokens[0][1], tokens[1][1]
    if module != _MODULES[mechanism] and not module.endswith(f".{_MODULES[mechanism]}"):
        raise ValueError(f"the login module of {mechanism} is {_MODULES[mechanism]}")
    if flag.lower() not in _FLAGS:
        raise ValueError(
            "the control flag after the login module is required, requisite, sufficient or optional"
        )
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != ("sign", ";"):
        option = tokens[position : position + 3]
        if [kind for kind, _ in option] not in (["word", "sign", "word"], ["word", "sign", "quoted"]):
            raise ValueError(f"option {len(options) + 1} does not have the form name=value")
        if option[1][1] != "=":
            raise ValueError(f"option {option[0][1]} has no value")
        options[option[0][1]] = option[2][1]
        position += 3
    if position != len(tokens) - 1:
        what = (
            "is not terminated by a semicolon"
            if position == len(tokens)
            else "has more than one login module"
        )
        raise ValueError(f"it {what}")
    return Login(module, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("a quotation mark is not closed")
        position = match.end()
        if match.lastgroup == "quoted":
            found.append(("quoted", _ESCAPE.sub(_unescape, match[0][1:-1])))
        elif match.lastgroup is not None:
            found.append((match.lastgroup, match[0]))
    return found


def _unescape(match: re.Match[str]) -> str:
    text = match[1]
    if text[0] in "01234567":
        return chr(int(text, 8))
    return _ESCAPED.get(text, text)
