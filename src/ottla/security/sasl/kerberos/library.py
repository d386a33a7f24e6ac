"""The adapter of the package `gssapi`, which the extra `ottla[gssapi]` installs, and of the library of Kerberos below.

That library reads its settings from the file that `KRB5_CONFIG` names, otherwise from `/etc/krb5.conf`. It reads a key
table again for every context, so that new keys are used at once, and it gets a new ticket before the old one expires.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import LocalError
from ottla.security.sasl.kerberos.context import Context, ContextFailed
from ottla.security.sasl.kerberos.credentials import Initiator, KeyTable

if TYPE_CHECKING:
    import gssapi

_KERBEROS_ERRORS: Final = -1_765_328_384
"""The first error code of Kerberos in the library; the codes of RFC 4120 follow it."""
_RETRIABLE: Final = frozenset({21, 33, 34})
"""A client or a ticket that is not valid yet, and a replay: as in Kafka."""


class _GssapiContext:
    """A context of the package."""

    def __init__(self, context: gssapi.SecurityContext) -> None:
        self._context = context
        self.complete = False

    @property
    def initiator(self) -> str:
        return str(_guarded(lambda: self._context.initiator_name))

    def step(self, token: bytes | None) -> bytes | None:
        answer: bytes | None = _guarded(lambda: self._context.step(token))
        # If the token reports an error to the other side, the package raises the error here.
        self.complete = bool(_guarded(lambda: self._context.complete))
        return answer

    def wrap(self, message: bytes) -> bytes:
        return bytes(_guarded(lambda: self._context.wrap(message, False)).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(_guarded(lambda: self._context.unwrap(message)).message)


def require_gssapi() -> None:
    """Raise LocalError if the package is not installed, or the library that it loads."""
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        raise LocalError(
            "GSSAPI needs the package gssapi and the library of MIT Kerberos: pip install 'ottla[gssapi]'"
        ) from error


def new_acceptor(table: KeyTable) -> Callable[[], Context]:
    """Creates server sides with the key of a principal; LocalError if the key table does not have it."""
    require_gssapi()
    import gssapi

    kerberos = gssapi.MechType.kerberos
    try:
        name = gssapi.Name(table.principal, gssapi.NameType.kerberos_principal).canonicalize(kerberos)
        credentials = gssapi.Credentials(
            name=name, mechs=[kerberos], usage="accept", store={"keytab": table.path}
        )
    except gssapi.exceptions.GSSError as error:
        raise LocalError(f"GSSAPI: no key of {table.principal} in {table.path}: {_text(error)}") from error
    return lambda: _GssapiContext(gssapi.SecurityContext(creds=credentials, usage="accept"))


def new_initiator(initiator: Initiator, host: str) -> Context:
    """A client side for the service on a host. It can block for a request to a server of Kerberos."""
    import gssapi

    kerberos = gssapi.MechType.kerberos
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity

    def make() -> Context:
        service = gssapi.Name(f"{initiator.service}@{host}", gssapi.NameType.hostbased_service)
        own = None
        if initiator.principal is not None:
            own = gssapi.Name(initiator.principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(
            name=own, mechs=[kerberos], usage="initiate", store=initiator.store() or None
        )
        return _GssapiContext(
            gssapi.SecurityContext(
                name=service.canonicalize(kerberos),
                creds=credentials,
                mech=kerberos,
                flags=flags,
                usage="initiate",
            )
        )

    made: Context = _guarded(make)
    return made


def default_realm() -> str:
    """The realm of principals that name none; empty if the settings of Kerberos have none."""
    import gssapi

    try:
        name = gssapi.Name("name", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


def _guarded(call: Callable[[], Any]) -> Any:
    import gssapi

    try:
        return call()
    except gssapi.exceptions.GSSError as error:
        code = (error.min_code - _KERBEROS_ERRORS) & 0xFFFF_FFFF
        retriable = code in _RETRIABLE or isinstance(error, gssapi.exceptions.DuplicateTokenError)
        raise ContextFailed(_text(error), retriable=retriable) from error


def _text(error: gssapi.exceptions.GSSError) -> str:
    """The messages of the library; they have names of principals and files, no keys."""
    parts = [
        part.strip()
        for code, is_major in ((error.maj_code, True), (error.min_code, False))
        for part in error.get_all_statuses(code, is_major)
    ]
    return ", ".join(dict.fromkeys(part for part in parts if part))
