"""Definitions of pages and actions, and what both get: the console and the view that a request names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jinja2 import Environment

from ottla.admin.session import Session
from ottla.base.errors import OttlaError
from ottla.console.broker_control import BrokerControl
from ottla.console.data.snapshot import Snapshot
from ottla.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from ottla.console.pages.scoreboard import BoardReader


class NotFound(OttlaError):
    """The cluster does not have what a page is about."""


class Event(NamedTuple):
    """One update of a page: new HTML for the element with the id `target`."""

    kind: Literal["replace", "append", "prepend", "end"]
    target: str = ""
    html: str = ""
    position: str = ""
    """Where a stream continues after it was interrupted: the parameter `resume` of the next one."""


@dataclass(frozen=True)
class Console:
    """What pages and actions use. The session may be used from several threads."""

    settings: ConsoleSettings
    session: Session
    control: BrokerControl | None
    environment: Environment
    token: str
    pipelines: Path
    boards: BoardReader


@dataclass(frozen=True)
class View:
    """What a request names: the parameters of the path and of the query, and the snapshot to show."""

    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    snapshot: Snapshot = field(default_factory=Snapshot)
    theme: str = "auto"

    def get(self, name: str, default: str = "") -> str:
        return self.query.get(name, default).strip()


Context = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """A page. `live` names the fragments that the stream renders again for each snapshot."""

    path: str
    template: str
    context: Callable[[Console, View], Context]
    section: str
    live: tuple[str, ...] = ()
    stream: Callable[[Console, View], Iterator[Event] | None] | None = None
    """Events of the page's own, such as found records. Blocking; None if this view has none."""


@dataclass(frozen=True)
class Download:
    """A file made of records. `run` returns its name, its media type and its content. Blocking."""

    path: str
    run: Callable[[Console, View], tuple[str, str, Iterator[bytes]]]


@dataclass(frozen=True)
class Action:
    """A change, requested by a form. `run` returns what was done, in one sentence."""

    path: str
    run: Callable[[Console, View], str]
