"""OffsetFetch (key 9), versions 1-10: returns the committed offsets of groups.

From version 8 on a request contains several groups; version 10 identifies topics by id. Topics null means all (from
version 2 on). The offset is -1 for partitions without a committed offset and for groups that do not exist. Version 1
reports an error of the group in the partitions, because it has no field for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import NameFilter, check, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.repetitions import limited
from ottla.broker.requirements import resources
from ottla.metadata.image import MetadataImage
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_GROUP_ERRORS: Final = 2
_GROUPS: Final = 8
_TOPIC_IDS: Final = 10
_NOTHING_COMMITTED: Final = -1


@handles(
    ApiKey.OFFSET_FETCH,
    OffsetFetchRequest,
    versions=(1, 10),
    requires=resources((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class OffsetFetch:
    """Reads committed offsets from the coordinators of the groups."""

    authorization: Authorization
    metadata: MetadataCache
    groups: GroupCoordinator

    async def handle(self, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
        if call.api_version >= _GROUPS:
            fetches = [
                self._fetch(group, request.require_stable, call)
                for group in limited(request.groups, _repetition)
            ]
            return OffsetFetchResponse(groups=list(await asyncio.gather(*fetches)))
        group = OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
        if request.topics is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        fetched = await self._fetch(group, request.require_stable, call)
        if fetched.error_code and call.api_version < _GROUP_ERRORS:
            code = ErrorCode(fetched.error_code)
            fetched.topics = [_without_offsets(topic, code) for topic in group.topics or []]
        return OffsetFetchResponse(
            error_code=fetched.error_code, topics=[_flat(each) for each in fetched.topics]
        )

    async def _fetch(
        self, group: OffsetFetchRequestGroup, require_stable: bool, call: Call
    ) -> OffsetFetchResponseGroup:
        image = self.metadata.image
        everything = group.topics is None
        visible = name_filter(
            self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC, quiet=everything
        )
        unknown = _resolve_names(group, image) if call.api_version >= _TOPIC_IDS else _set_ids(group, image)
        hidden: list[OffsetFetchRequestTopics] = []
        try:
            check(self.authorization, call, Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            wanted, hidden = _without_hidden(group, visible)
            fetched = await self.groups.read(
                group.group_id, lambda machine: machine.fetch_offsets(wanted, require_stable=require_stable)
            )
        except ApiError as error:
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=client_error(error))
        if everything and visible is not None:
            fetched.topics = [topic for topic in fetched.topics if visible(topic.name)]
        if everything and call.api_version >= _TOPIC_IDS:
            fetched.topics = _with_ids(fetched.topics, image)
        if fetched.error_code:
            return fetched
        fetched.topics += [_without_offsets(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in hidden]
        fetched.topics += [_without_offsets(topic, ErrorCode.UNKNOWN_TOPIC_ID) for topic in unknown]
        return fetched


def _repetition(group: OffsetFetchRequestGroup) -> str | int:
    """A key that is the same for repeated requests for all offsets of a group: each would add all of them."""
    return group.group_id if group.topics is None else id(group)


def _resolve_names(group: OffsetFetchRequestGroup, image: MetadataImage) -> list[OffsetFetchRequestTopics]:
    """Set the names of the topics; remove and return those that do not exist."""
    unknown = []
    for topic in group.topics or []:
        found = image.topics.by_id.get(topic.topic_id)
        if found is None:
            unknown.append(topic)
        else:
            topic.name = found.name
    if unknown and group.topics:
        group.topics = [topic for topic in group.topics if topic.topic_id in image.topics.by_id]
    return unknown


def _without_hidden(
    group: OffsetFetchRequestGroup, visible: NameFilter
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchRequestTopics]]:
    """The request without the topics that the client may not describe, and these topics."""
    if visible is None or not group.topics:
        return group, []
    hidden = [topic for topic in group.topics if not visible(topic.name)]
    if not hidden:
        return group, []
    return replace(group, topics=[topic for topic in group.topics if visible(topic.name)]), hidden


def _set_ids(group: OffsetFetchRequestGroup, image: MetadataImage) -> list[OffsetFetchRequestTopics]:
    """Set the ids of the topics, so that offsets of an earlier topic with the same name are not returned."""
    for topic in group.topics or []:
        found = image.topics.by_name.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
    return []


def _with_ids(
    topics: list[OffsetFetchResponseTopics], image: MetadataImage
) -> list[OffsetFetchResponseTopics]:
    known = [topic for topic in topics if topic.name in image.topics.by_name]
    for topic in known:
        topic.topic_id = image.topics.by_name[topic.name].topic_id
    return known


def _without_offsets(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_NOTHING_COMMITTED, error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _flat(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """Return a topic in the form of the versions with a single group."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )
