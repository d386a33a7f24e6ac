"""Contexts: named clusters with the settings of their clients, kept in the user's configuration folder.

    $XDG_CONFIG_HOME/ottla/contexts/NAME.properties      one file per context, in the format of Kafka's client files
    $XDG_CONFIG_HOME/ottla/context                       the name of the current context

`$XDG_CONFIG_HOME` is `~/.config` by default. The files may contain passwords: they are readable by their owner only.
`ottla up` writes the context `local` while it runs, with the directory of its data as `ottla.data`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base.errors import LocalError

LOCAL = "local"
"""The context of the cluster that `ottla up` runs."""
BOOTSTRAP = "bootstrap.servers"
DATA, PID = "ottla.data", "ottla.pid"
"""Keys in the context of `ottla up`: the directory of its data, and its process."""
_SUFFIX = ".properties"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Context:
    """One cluster: its bootstrap servers, and the settings of a client."""

    name: str
    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    """The directory of a cluster that `ottla up` runs."""
    pid: int | None = None

    @property
    def addresses(self) -> set[str]:
        return {each.strip() for each in self.bootstrap.split(",")}


@dataclass(frozen=True)
class ContextFolder:
    """The contexts of one user."""

    path: Path

    @classmethod
    def of_user(cls, environment: Mapping[str, str] | None = None) -> ContextFolder:
        known = os.environ if environment is None else environment
        base = known.get("XDG_CONFIG_HOME") or str(Path(known.get("HOME") or Path.home()) / ".config")
        return cls(Path(base) / "ottla")

    def names(self) -> list[str]:
        """The names of all contexts, ordered."""
        return sorted(each.name.removesuffix(_SUFFIX) for each in self._folder.glob(f"*{_SUFFIX}"))

    def load(self, name: str) -> Context:
        """A context by its name, or a file with client settings by its path. Raise LocalError."""
        path = self._path(name) if _NAME.fullmatch(name) else None
        if path is None or not path.exists():
            path = Path(name)
        if path.is_dir():
            raise LocalError(f"{path} is a directory, not a file with client settings")
        if not path.is_file():
            known = ", ".join(self.names()) or "none"
            raise LocalError(f"there is no context {name!r}, and no such file (contexts: {known})")
        try:
            values = parse_properties(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise LocalError(f"cannot read the context {path}: {error}") from error
        if not values.get(BOOTSTRAP):
            raise LocalError(f"{path} has no {BOOTSTRAP}")
        data, pid = values.pop(DATA, None), values.pop(PID, "")
        return Context(
            name,
            values.pop(BOOTSTRAP),
            values,
            Path(data) if data else None,
            int(pid) if pid.isdigit() else None,
        )

    def default(self) -> Context | None:
        """The current context, else that of `ottla up`; None if there is neither."""
        current = self.current()
        if current is not None:
            return self.load(current)
        return self.load(LOCAL) if self._path(LOCAL).exists() else None

    def current(self) -> str | None:
        """The name of the context that was chosen with `use`."""
        try:
            return (self.path / "context").read_text().strip() or None
        except OSError:
            return None

    def use(self, name: str | None) -> None:
        """Choose the current context, or none. Raise LocalError if it does not exist."""
        if name is None:
            (self.path / "context").unlink(missing_ok=True)
            return
        self.load(name)
        _write(self.path / "context", name + "\n")

    def save(self, context: Context) -> Path:
        """Write a context. Raise LocalError if its name is not allowed, or the file cannot be written."""
        values = {BOOTSTRAP: context.bootstrap, **context.settings}
        if context.data is not None:
            values[DATA] = str(context.data)
        if context.pid is not None:
            values[PID] = str(context.pid)
        path = self._path(context.name)
        _write(path, "".join(f"{key}={_escape(value)}\n" for key, value in values.items()))
        return path

    def delete(self, name: str) -> None:
        """Delete a context. Raise LocalError if it does not exist."""
        path = self._path(name)
        if not path.exists():
            raise LocalError(f"there is no context {name!r} (contexts: {', '.join(self.names()) or 'none'})")
        path.unlink()
        if self.current() == name:
            self.use(None)

    @property
    def _folder(self) -> Path:
        return self.path / "contexts"

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise LocalError(
                f"{name!r} is not a name of a context: letters, digits, `.`, `_` and `-`, at most 64"
            )
        return self._folder / f"{name}{_SUFFIX}"


def local_cluster(bootstrap: str, environment: Mapping[str, str] | None = None) -> Context | None:
    """The context of a cluster that `ottla up` runs at one of these addresses; None if there is none."""
    folder = ContextFolder.of_user(environment)
    addresses = {each.strip() for each in bootstrap.split(",")}
    for name in folder.names():
        found = folder.load(name)
        if found.data is not None and found.addresses & addresses:
            return found
    return None


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a properties file; comments start with `#` or `!`."""
    found = {}
    for line in text.splitlines():
        given = line.strip()
        if not given or given[0] in "#!":
            continue
        key, _, value = given.partition("=")
        found[key.strip()] = value.strip().replace("\\n", "\n").replace("\\\\", "\\")
    return found


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.new")
        made.touch(mode=0o600)
        made.write_text(text)
        made.replace(path)
    except OSError as error:
        raise LocalError(f"cannot write {path}: {error.strerror or error}") from error
