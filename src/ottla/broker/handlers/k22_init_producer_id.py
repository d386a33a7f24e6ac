"""InitProducerId (key 22), versions 0-6: an id for an idempotent producer, or for a transactional one.

Without a transactional id every call gets a new id with epoch 0, also if the client sends its current one. An id
without an epoch, or an epoch without an id, is invalid, and so is an empty transactional id. With a transactional id
the transaction coordinator decides (`coordinator.txn.init_producer_id`).

Version 6 is two-phase commit (KIP-939), which is unstable in Kafka 4.3. It is served here, and listed if
`transaction.two.phase.commit.enable` is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import allows_cluster, check
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.coordination.producer_ids import ProducerIds
from ottla.broker.coordination.txn_requests import client_error, take_producer_id, write_with_producer_id
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.coordinator.txn.init_producer_id import InitParameters
from ottla.coordinator.txn.responses import InitProducerIdResult
from ottla.coordinator.txn.transaction import NO_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, Producer
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_KNOWS_FENCED: Final = 4


@handles(
    ApiKey.INIT_PRODUCER_ID,
    InitProducerIdRequest,
    versions=(0, 6),
    newest_needs="transaction.two.phase.commit.enable",
    requires=resources(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID),
        (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        (Operation.WRITE, ResourceType.TOPIC),
    ),
)
@dataclass(frozen=True)
class InitProducerId:
    """Assigns producer ids, alone or through the coordinator of a transactional id."""

    authorization: Authorization
    transactions: TxnCoordinator
    producer_ids: ProducerIds

    async def handle(self, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
        try:
            self._authorize(request, call)
            result = await self._initialise(request)
        except ApiError as error:
            result = InitProducerIdResult(error.code)
        return InitProducerIdResponse(
            error_code=client_error(result.error, knows_fenced=call.api_version >= _KNOWS_FENCED),
            producer_id=result.producer.id,
            producer_epoch=result.producer.epoch,
            ongoing_txn_producer_id=result.ongoing.id,
            ongoing_txn_producer_epoch=result.ongoing.epoch,
        )

    def _authorize(self, request: InitProducerIdRequest, call: Call) -> None:
        """Raise ApiError if the client lacks a right; this is checked before everything else."""
        authorization, name = self.authorization, request.transactional_id
        if name is not None:
            check(authorization, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
            if request.enable2_pc:
                check(authorization, call, Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, name)
        elif not allows_cluster(
            authorization, call, Operation.IDEMPOTENT_WRITE, quiet=True
        ) and not authorization.allows_any(call.origin, Operation.WRITE, ResourceType.TOPIC):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def _initialise(self, request: InitProducerIdRequest) -> InitProducerIdResult:
        transactional_id = request.transactional_id
        current = Producer(request.producer_id, request.producer_epoch)
        incomplete = (current.id == NO_PRODUCER_ID) != (current.epoch == NO_EPOCH)
        if transactional_id == "" or incomplete:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if transactional_id is None:
            return InitProducerIdResult(
                ErrorCode.NONE, Producer(await take_producer_id(self.producer_ids), 0)
            )
        parameters = InitParameters(
            request.transaction_timeout_ms,
            None if current == NO_PRODUCER else current,
            two_phase=request.enable2_pc,
            keep_prepared=request.keep_prepared_txn,
        )
        return await write_with_producer_id(
            self.transactions,
            self.producer_ids,
            transactional_id,
            lambda machine, new_id: machine.init_producer_id(transactional_id, parameters, new_id),
        )
