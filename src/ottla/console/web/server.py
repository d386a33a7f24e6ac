"""The console as a server in a thread: it chooses a free port, starts, and stops.

`ottla console`, `ottla up` and `ottla demo` use it. If the port is in use, the next free one is taken.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import uvicorn

from ottla.base.errors import LocalError
from ottla.console.broker_control import BrokerControl
from ottla.console.settings import ConsoleSettings
from ottla.console.web.app import make_app

PORTS_TRIED = 20
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_GRACEFUL_S = 1
_CHECK_INTERVAL_S = 0.01


class ConsoleServer:
    """One console. `settings.port` is the port that was chosen."""

    def __init__(self, settings: ConsoleSettings, control: BrokerControl | None = None) -> None:
        self._socket = _bind(settings)
        self.settings = replace(settings, port=int(self._socket.getsockname()[1]))
        config = uvicorn.Config(
            make_app(self.settings, control),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACEFUL_S,
            timeout_keep_alive=30,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="console", daemon=True
        )

    @property
    def url(self) -> str:
        return self.settings.url

    def start(self) -> None:
        """Start and wait until the console accepts requests."""
        self._thread.start()
        pause = threading.Event()
        for _ in range(int(START_TIMEOUT_S / _CHECK_INTERVAL_S)):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            pause.wait(_CHECK_INTERVAL_S)
        raise LocalError("the console did not start")

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_TIMEOUT_S)
        self._socket.close()

    def __enter__(self) -> ConsoleServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _bind(settings: ConsoleSettings) -> socket.socket:
    """A socket that listens on the port of the settings, or on the next one that is free."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    last: OSError | None = None
    for port in range(settings.port, min(settings.port + PORTS_TRIED, 65_536)) if settings.port else (0,):
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((settings.host, port))
            made.listen(128)
        except OSError as error:
            made.close()
            last = error
        else:
            return made
    raise LocalError(f"--port: the console cannot listen on {settings.host}:{settings.port}: {last}")
