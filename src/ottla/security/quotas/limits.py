"""The limit of a client: the most specific quota of its user and client id, in Kafka's order of precedence.

    1 (user, client id)   2 (user, default)      3 user            4 (default, client id)
    5 (default, default)  6 default user         7 client id       8 default client id

Usage is counted for the parts of the client that the quota names: all client ids of a user share a quota of the user,
and each user has its own share of the default.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.metadata.image import QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_ABSENT: Final = ""
"""In the place of a user or client id that a quota does not name; names are not empty."""

Holder = tuple[str, str]
"""User and client id that share a quota; empty where the quota does not depend on it."""


class Limit(NamedTuple):
    """The bound of a client, and with which others it is shared."""

    bound: float
    holder: Holder


class ClientLimits:
    """The quotas of one key, for example `producer_byte_rate`; False if there are none."""

    __slots__ = ("_bounds",)

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        self._bounds: dict[tuple[str | None, str | None], float] = {}
        for entity, values in quotas.items():
            if key in values:
                names = dict(entity)
                self._bounds[names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT)] = values[key]

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def of(self, user: str, client_id: str) -> Limit | None:
        """The limit of a client; None if no quota applies to it."""
        bounds = self._bounds
        for key, holder in _candidates(user, client_id):
            bound = bounds.get(key)
            if bound is not None:
                return Limit(bound, holder)
        return None


def _candidates(user: str, client_id: str) -> tuple[tuple[tuple[str | None, str | None], Holder], ...]:
    """The entities that include a client, the most specific first. A client without an id has no client id quota."""
    if not client_id:
        return ((user, _ABSENT), (user, "")), ((None, _ABSENT), (user, ""))
    both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
    return (
        ((user, client_id), both),
        ((user, None), both),
        ((user, _ABSENT), of_user),
        ((None, client_id), both),
        ((None, None), both),
        ((None, _ABSENT), of_user),
        ((_ABSENT, client_id), of_client),
        ((_ABSENT, None), of_client),
    )


def _address(name: str | None) -> str | None:
    """An address in the form of sockets; a name that is not an address matches no client."""
    try:
        return None if name is None else str(ipaddress.ip_address(name))
    except ValueError:
        return name


class AddressLimits:
    """The rates of new connections per address; False if there are none."""

    __slots__ = ("_bounds",)

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._bounds: dict[str | None, float] = {
            _address(entity[0][1]): values["connection_creation_rate"]
            for entity, values in quotas.items()
            if entity[0][0] == IP and "connection_creation_rate" in values
        }

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def of(self, ip: str) -> float | None:
        """The most new connections per second from an address; None if they are not limited."""
        bound = self._bounds.get(ip)
        return self._bounds.get(None) if bound is None else bound
