"""Decisions about ACL entries: CreateAcls and DeleteAcls.

Entries are independent: one that is refused does not affect the others. An entry that exists already is not created
again, and that is no error. All records of a request are committed together.
"""

from __future__ import annotations

import uuid
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.rng import Random, random_uuid
from ottla.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, check_record_count
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ottla.security.acls.filters import AclFilter, known
from ottla.security.acls.index import AclIndex
from ottla.security.resources import CLUSTER, Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.schema import Message

_CONCRETE_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_CONCRETE_PERMISSIONS: Final = (Permission.ALLOW, Permission.DENY)


def decide_create(
    image: MetadataImage, index: AclIndex, request: CreateAclsRequest, rng: Random
) -> Decision[CreateAclsResponse]:
    """Create entries; `index` is the index of the entries of `image`."""
    if any(_is_filter(creation) for creation in request.creations):
        return Decision([], refuse_create(request, ErrorCode.UNKNOWN_SERVER_ERROR, None))
    created: dict[tuple[object, ...], Message] = {}
    results = []
    for creation in request.creations:
        try:
            _check(creation)
        except ApiError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
            continue
        record = _record(creation, _new_id(image, rng))
        key = _content(record)
        if key not in created and not index.contains(record):
            created[key] = record
        results.append(AclCreationResult())
    check_record_count(len(created))
    return Decision(list(created.values()), CreateAclsResponse(results=results))


def _is_filter(creation: AclCreation) -> bool:
    """Whether a field has a value that only filters have; such a request fails completely."""
    return (
        creation.resource_type == ResourceType.ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.operation == Operation.ANY
        or creation.permission_type == Permission.ANY
    )


def _check(creation: AclCreation) -> None:
    """Refuse an entry that is not valid."""
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER:
        raise _invalid(f"the resource of type CLUSTER has the name {CLUSTER}, not {creation.resource_name}")
    if not creation.resource_name:
        raise _invalid("the name of the resource is empty")
    if not known(ResourceType, creation.resource_type):
        raise _invalid(f"unknown resource type {creation.resource_type}")
    if creation.resource_pattern_type not in _CONCRETE_PATTERNS:
        raise _invalid(f"unknown pattern type {creation.resource_pattern_type}")
    if not known(Operation, creation.operation):
        raise _invalid(f"unknown operation {creation.operation}")
    if creation.permission_type not in _CONCRETE_PERMISSIONS:
        raise _invalid(f"unknown permission {creation.permission_type}")
    if ":" not in creation.principal:
        raise _invalid(f"the principal {creation.principal} has no type; expected Type:name")


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _new_id(image: MetadataImage, rng: Random) -> uuid.UUID:
    while (made := random_uuid(rng)) in image.acls:
        pass
    return made


def _record(creation: AclCreation, entry_id: uuid.UUID) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=entry_id,
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _content(record: AccessControlEntryRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in record.__struct_fields__ if name != "id")


def refuse_create(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    """The same error for every entry of a request."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )


def decide_delete(image: MetadataImage, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """Remove the entries that the filters select; an entry that two filters select is in the results of both."""
    removed: dict[uuid.UUID, Message] = {}
    results = []
    for message in request.filters:
        wanted = AclFilter.of(message)
        if not (wanted.resource_type and wanted.pattern_type):
            results.append(_refused("the resource type or the pattern type is unknown"))
        elif not (wanted.operation and wanted.permission):
            results.append(_refused("the operation or the permission is unknown"))
        else:
            found = [entry for entry in image.acls.values() if wanted.matches(entry)]
            removed.update({entry.id: RemoveAccessControlEntryRecord(id=entry.id) for entry in found})
            results.append(
                DeleteAclsFilterResult(
                    error_message=None, matching_acls=[_matching(entry) for entry in found]
                )
            )
    if len(removed) > RECORDS_PER_REQUEST_MAX:
        text = f"one request may remove at most {RECORDS_PER_REQUEST_MAX} entries; use narrower filters"
        return Decision([], refuse_delete(request, ErrorCode.INVALID_REQUEST, text))
    return Decision(list(removed.values()), DeleteAclsResponse(filter_results=results))


def _refused(text: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=text)


def _matching(entry: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def refuse_delete(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    """The same error for every filter of a request."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters
        ]
    )
