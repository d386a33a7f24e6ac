"""Decisions about SCRAM users: AlterUserScramCredentials, and the response of DescribeUserScramCredentials.

A request contains the salted password; the records contain the stored key and the server key only. A user may occur
once in a request. Users are independent: an error of one does not affect the others.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision, check_record_count
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ottla.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, derive_keys
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.wire.schema import Message

_FIRST_METADATA_VERSION: Final = 11


def decide_alter(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Delete and store credentials."""
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *request.deletions,
        *request.upsertions,
    ]
    times = Counter(change.name for change in changes)
    records: list[Message] = []
    errors: dict[str, ApiError] = {}
    for change in changes:
        if change.name in errors:
            continue
        try:
            record = _record(image, change)
            if times[change.name] > 1:
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, "a user can be altered once in a request")
            records.append(record)
        except ApiError as error:
            errors[change.name] = error
    check_record_count(len(records))
    results = [
        _result(name, errors[name].code, errors[name].message)
        if name in errors
        else _result(name, ErrorCode.NONE, None)
        for name in times
    ]
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


def _record(image: MetadataImage, change: ScramCredentialDeletion | ScramCredentialUpsertion) -> Message:
    """The record of a change; ApiError if it is not valid."""
    mechanism = ScramMechanism(change.mechanism)
    if image.metadata_version < _FIRST_METADATA_VERSION:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "this metadata.version does not support SCRAM")
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of the user is empty")
    if not mechanism:
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"unknown SCRAM mechanism {change.mechanism}; allowed: 1, 2"
        )
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, mechanism) not in image.scram:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND, "the user has no credential of this mechanism to delete"
            )
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=mechanism)
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{change.iterations} iterations; allowed: {ITERATIONS_MIN} to {ITERATIONS_MAX}",
        )
    if not change.salted_password:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the salted password is empty")
    keys = derive_keys(mechanism, change.salted_password)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=mechanism,
        salt=change.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=change.iterations,
    )


def refuse_alter(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None = None
) -> AlterUserScramCredentialsResponse:
    """The same error for every user of a request."""
    names = sorted({each.name for each in request.deletions} | {each.name for each in request.upsertions})
    return AlterUserScramCredentialsResponse(results=[_result(name, code, message) for name in names])


def _result(user: str, code: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)


def describe(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of the named users, or of all users."""
    found: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), stored in sorted(image.scram.items()):
        found.setdefault(name, []).append(CredentialInfo(mechanism=mechanism, iterations=stored.iterations))
    times = Counter([user.name for user in request.users or ()] or list(found))
    return DescribeUserScramCredentialsResponse(
        results=[_described(name, times, found.get(name)) for name in times]
    )


def _described(
    name: str, times: Counter[str], infos: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    if times[name] > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"user {name} occurs more than once in the request"
    elif infos is None:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"user {name} has no SCRAM credentials"
    else:
        return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
