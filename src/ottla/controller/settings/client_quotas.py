"""Decisions about client quotas: AlterClientQuotas, and the response of DescribeClientQuotas (KIP-546, KIP-612).

An entity is a user, a client id, both, or an address; the name None is the default of its type. Entities are
independent: an error of one does not affect the others. An entity that occurs more than once is refused completely.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision, check_record_count
from ottla.metadata.image import MetadataImage, QuotaEntity
from ottla.metadata.records import ClientQuotaRecord, EntityData
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    ValueData,
)
from ottla.wire.messages.describe_client_quotas import EntityData as DescribedEntity
from ottla.wire.messages.describe_client_quotas import EntryData as DescribedEntry
from ottla.wire.schema import Message

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)

_WHOLE_NUMBERS: Final = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "connection_creation_rate": 2**31 - 1,
}
"""The largest value of each quota that is a whole number."""
_CLIENT_KEYS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_KEYS: Final = frozenset({"connection_creation_rate"})
_FRACTION: Final = 1e-6

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


def decide_alter(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    """Set and remove quotas of entities."""
    entities = [_entity(entry) for entry in request.entries]
    times = Counter(entities)
    records: list[Message] = []
    responses = []
    for entity, entry in dict(zip(entities, request.entries, strict=True)).items():
        try:
            if times[entity] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "an entity occurs more than once")
            records += _changes(entity, entry.ops, image.quotas.get(entity, {}))
        except ApiError as error:
            responses.append(_response(entity, error.code, error.message))
        else:
            responses.append(_response(entity, ErrorCode.NONE, None))
    check_record_count(len(records))
    response = AlterClientQuotasResponse(entries=responses)
    return Decision([] if request.validate_only else records, response)


def _entity(entry: EntryData) -> QuotaEntity:
    """The entity as the image has it: sorted by type, the last one if a type occurs again."""
    names = {each.entity_type: each.entity_name for each in entry.entity}
    return tuple(sorted(names.items(), key=lambda pair: pair[0]))


def _changes(entity: QuotaEntity, ops: list[OpData], stored: Mapping[str, float]) -> list[Message]:
    keys = _allowed_keys(entity)
    if len({op.key for op in ops}) != len(ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a quota of an entity occurs more than once")
    records: list[Message] = []
    for op in ops:
        if op.remove:
            if op.key in stored:
                records.append(_record(entity, op.key, 0.0, remove=True))
            continue
        _check_value(op.key, op.value, keys)
        if stored.get(op.key) != op.value:
            records.append(_record(entity, op.key, op.value, remove=False))
    return records


def _record(entity: QuotaEntity, key: str, value: float, *, remove: bool) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove)


def _allowed_keys(entity: QuotaEntity) -> frozenset[str]:
    """The quotas that an entity can have; ApiError if it is not valid."""
    for kind, name in entity:
        if kind not in _TYPES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"unknown entity type {kind}; allowed: {', '.join(_TYPES)}"
            )
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the name of the {kind} is empty")
    if not entity:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the entity is empty")
    names = dict(entity)
    if IP not in names:
        return _CLIENT_KEYS
    if len(names) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "an ip cannot be combined with a user or client-id")
    address = names[IP]
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{address} is not an IP address") from None
    return _IP_KEYS


def _check_value(key: str, value: float, keys: frozenset[str]) -> None:
    if key not in keys:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the entity has no quota {key}; allowed: {', '.join(sorted(keys))}",
        )
    if not value > 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} must be greater than 0")
    largest = _WHOLE_NUMBERS.get(key)
    if largest is not None:
        if value > largest:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} must be at most {largest}")
        if math.fmod(value, 1.0) > _FRACTION:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} must be a whole number")


def refuse_alter(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None = None
) -> AlterClientQuotasResponse:
    """The same error for every entity of a request."""
    return AlterClientQuotasResponse(
        entries=[_response(_entity(entry), code, message) for entry in request.entries]
    )


def _response(
    entity: QuotaEntity, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=code,
        error_message=message,
        entity=[
            AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ],
    )


def describe(image: MetadataImage, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """The quotas of the entities that match the filter."""
    try:
        matches = _filter(request)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = [
        DescribedEntry(
            entity=[DescribedEntity(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
        )
        for entity, values in image.quotas.items()
        if matches(entity)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _filter(request: DescribeClientQuotasRequest) -> Callable[[QuotaEntity], bool]:
    """Whether an entity matches the components of a request; ApiError if they are not valid."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        _check_component(component, exact.keys() | specified)
        if component.match_type == _SPECIFIED:
            specified.add(kind)
        else:
            exact[kind] = component.match
    wanted = exact.keys() | specified
    if IP in wanted and len(wanted) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "an ip cannot be combined with a user or client-id")

    def matches(entity: QuotaEntity) -> bool:
        names = dict(entity)
        if request.strict and len(names) != len(wanted):
            return False
        return wanted <= names.keys() and all(names[kind] == name for kind, name in exact.items())

    return matches


def _check_component(component: ComponentData, earlier: set[str]) -> None:
    kind, match_type = component.entity_type, component.match_type
    if not kind:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the entity type is empty")
    if kind in earlier:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"entity type {kind} occurs more than once")
    if kind not in _TYPES:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"unknown entity type {kind}; allowed: {', '.join(_TYPES)}"
        )
    if match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown match type {match_type}; allowed: 0, 1, 2")
    if (component.match is None) == (match_type == _EXACT):
        needs = "needs" if match_type == _EXACT else "has no"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"match type {match_type} {needs} name")
