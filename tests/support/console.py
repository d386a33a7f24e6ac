"""A console and its cluster for tests, requests to it as any program sends them, and checks inside a browser."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from ottla.admin.session import Session
from ottla.console.broker_control import Action, ActionQueue, BrokerControl
from ottla.console.settings import ConsoleSettings
from ottla.console.web.server import ConsoleServer
from ottla.local.cluster import LocalCluster
from ottla.local.ports import free_port
from ottla.wire.messages.metadata import MetadataResponse

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
KILLED = "killed"


def find_chromium() -> str | None:
    """The browser of OTTLA_CHROMIUM, or one that is installed."""
    named = os.environ.get("OTTLA_CHROMIUM")
    return named or next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


class ControlledCluster:
    """Local brokers, and a thread that executes the actions of the console as `ottla up` does."""

    def __init__(self, data: Path, config: Mapping[str, str]) -> None:
        self.local = LocalCluster(data, 3, racks=("R1", "R2"), config=config)
        self._ended: dict[int, str] = {}
        self.control = ActionQueue(self._states)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ControlledCluster:
        self.local.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.local.kill_all()

    def _states(self) -> dict[int, str]:
        return {
            node_id: "paused"
            if each.paused
            else "running"
            if each.running
            else self._ended.get(node_id, "ended")
            for node_id, each in self.local.brokers.items()
        }

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.control.execute_pending(self._execute)

    def _execute(self, action: Action, node_id: int) -> str:
        broker = self.local.brokers[node_id]
        match action:
            case "kill":
                self._ended[node_id] = KILLED
                broker.kill()
            case "pause":
                (broker.resume if broker.paused else broker.pause)()
            case _:
                broker.stop()
                broker.launch()
        return action


class ForeignBroker:
    """A broker that the console does not control, in the place of a `ControlledCluster`."""

    control: BrokerControl | None = None

    def __init__(self, bootstrap: str) -> None:
        self.local = self
        self.bootstrap = bootstrap

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        with Session(self.bootstrap) as session:
            return session.metadata(topics)


ShownCluster = ControlledCluster | ForeignBroker


@contextmanager
def console_for(
    bootstrap: str,
    control: BrokerControl | None = None,
    *,
    read_only: bool = False,
    pipelines: Path = Path("none"),
) -> Iterator[ConsoleServer]:
    settings = ConsoleSettings(bootstrap, port=free_port(), read_only=read_only, pipelines=pipelines)
    with ConsoleServer(settings, control) as server:
        yield server


@dataclass
class Response:
    status: int
    headers: Mapping[str, str]
    text: str


def request(
    server: ConsoleServer,
    path: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
) -> Response:
    """One request; a form is sent with POST."""
    connection = http.client.HTTPConnection("127.0.0.1", server.settings.port, timeout=60)
    body = None if form is None else urlencode(form)
    sent = {"content-type": "application/x-www-form-urlencoded"} if form is not None else {}
    try:
        connection.request(
            method or ("GET" if form is None else "POST"), path, body, {**sent, **(headers or {})}
        )
        response = connection.getresponse()
        text = response.read().decode()
        return Response(response.status, {key.lower(): value for key, value in response.getheaders()}, text)
    finally:
        connection.close()


def token_of(server: ConsoleServer) -> str:
    """The token, as our own pages contain it."""
    found = re.search(r'name="ottla-token" content="([^"]+)"', request(server, "/").text)
    assert found is not None
    return found[1]


CONTRAST = """
() => {
  const parse = (text) => {
    const numbers = (text.match(/-?[\\d.]+(e-?\\d+)?/g) || []).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((each) => each * scale), numbers[3] === undefined ? 1 : numbers[3]];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  let checked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.nodeValue.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(":disabled, .visually-hidden, .skip, script, option")) continue;
    const style = getComputedStyle(element);
    const behind = background(element);
    const [a, b] = [luminance(over(parse(style.color), behind)), luminance(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    checked += 1;
    const text = node.nodeValue.trim().slice(0, 40);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${element.className}: ${text}`);
  }
  return { checked, found };
}
"""
"""The texts of a page whose contrast with their background is below the limits of WCAG AA."""
