"""Outbound connections of a node to other nodes: non-blocking, in order, with timeouts and reconnect back-off."""
