"""The addresses of the controllers, as this node knows them at present, for everything that connects to controllers.

Static voters never change. With voters in the log, the records of the log and the messages of other replicas name
addresses; the newest one counts. Concurrency: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.node.settings.quorum_config import VoterAddress


class ControllerAddresses:
    """Addresses by node id, without that of this node."""

    def __init__(self, node_id: int, voters: Iterable[VoterAddress] = ()) -> None:
        self._node_id = node_id
        self._known: dict[int, VoterAddress] = {}
        self._followers: list[Callable[[int, str, int], None]] = []
        for voter in voters:
            self.set(*voter)

    def set(self, node_id: int, host: str, port: int) -> None:
        """Set the address of a node, or replace it."""
        address = VoterAddress(node_id, host, port)
        if node_id == self._node_id or self._known.get(node_id) == address:
            return
        self._known[node_id] = address
        for follower in self._followers:
            follower(*address)

    def follow(self, follower: Callable[[int, str, int], None]) -> None:
        """Call `follower(node_id, host, port)` with every known address, and with each new one."""
        self._followers.append(follower)
        for address in self._known.values():
            follower(*address)
