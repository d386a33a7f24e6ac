"""Detection of an outage of the cluster while a pipeline runs.

A streaming query retries for a minute before it fails, and reports nothing meanwhile. So a thread requests the metadata
of the cluster once a second. `outage` is the reason while no broker responds; the runner reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ottla.base.errors import OttlaError
from ottla.client.raw import ClientError, Cluster
from ottla.pipelines.io.topics import SettingsRejected, client_settings
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

INTERVAL_S: Final = 1.0
TIMEOUT_MS: Final = 3_000


class BrokerProbe:
    """One thread that checks the cluster until `close`; none with settings that the client does not support."""

    def __init__(self, bootstrap: str, options: Mapping[str, str]) -> None:
        self.outage: str | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            settings = client_settings(bootstrap, options)
        except SettingsRejected:
            return
        self._cluster = Cluster(
            replace(settings, request_timeout_ms=TIMEOUT_MS, connect_timeout_ms=TIMEOUT_MS)
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; it does not wait for a request that is in progress."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL_S):
            self.outage = (
                self._check() and self._check()
            )  # after a lost connection another broker may respond
        self._cluster.close()

    def _check(self) -> str | None:
        """Why no broker responds, or None."""
        try:
            self._cluster.any_connection().request(MetadataRequest(topics=[]), MetadataResponse)
        except (ClientError, OttlaError) as error:
            return str(error)
        return None
