"""The APIs of the controller listener and what their handlers use."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ottla.base.promise import Promise
from ottla.broker.dependencies import ControllerDependencies, MetadataCache
from ottla.broker.handlers import load_all
from ottla.broker.net.listeners import ListenerType
from ottla.broker.registry import ListedApis, Route
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorization
    from ottla.broker.forwarding.envelope import EnvelopeServer
    from ottla.broker.quotas import Quotas
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.node.quorum.metadata import MetadataNode
    from ottla.node.settings.config import NodeConfig


def controller_apis(
    config: NodeConfig,
    cluster_id: str,
    metadata: MetadataNode,
    envelopes: EnvelopeServer,
    authorization: Authorization,
    quotas: Quotas,
) -> tuple[list[Route], ControllerDependencies]:
    """The routes of a node that has opened its metadata, and the dependencies of their handlers."""
    receive = metadata.receive
    routes = [route for route in load_all() if ListenerType.CONTROLLER in route.listeners]
    if receive is None:  # a quorum of one has no other replicas
        routes = [route for route in routes if "quorum_requests" not in _parameters(route)]
    publisher = metadata.publisher
    cache = MetadataCache(publisher.image)

    def follow(_: MetadataDelta, image: MetadataImage) -> None:
        cache.image = image

    publisher.add_listener(follow)
    return routes, ControllerDependencies(
        cluster_id=cluster_id,
        node_id=config.node_id,
        config=config.broker,
        metadata=cache,
        finalized_features=publisher.finalized_features,
        controller=metadata.controller,
        listed_apis=ListedApis(routes, config.broker),
        authorization=authorization,
        quotas=quotas,
        envelopes=envelopes,
        quorum_requests=receive or _no_replicas,
        quorum_status=metadata.quorum.describe,
    )


def _parameters(route: Route) -> frozenset[str]:
    return frozenset(inspect.signature(route.handler).parameters)


def _no_replicas(_: Message) -> Promise[Message]:
    raise AssertionError("no route of a quorum of one uses it")
