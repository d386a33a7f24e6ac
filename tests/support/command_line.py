"""Commands of `ottla` against a cluster, in the process of the test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ottla.cli.main import _app


@dataclass(frozen=True)
class CommandLine:
    """Runs commands with `-b` of a cluster, and with a configuration folder of the test's own."""

    bootstrap: str
    folder: Path

    def run(self, *arguments: str, code: int | None = 0, stdin: str | None = None) -> tuple[str, str]:
        """Standard output and standard error of a command; its exit code is checked, unless `code` is None."""
        environment: dict[str, str | None] = {
            "XDG_CONFIG_HOME": str(self.folder),
            "OTTLA_BOOTSTRAP": self.bootstrap,
            "OTTLA_CONTEXT": None,
        }
        result = CliRunner().invoke(_app(), arguments, input=stdin, env=environment)
        assert code in (None, result.exit_code), (result.exit_code, result.output, result.exception)
        return result.stdout, result.stderr

    def json(self, *arguments: str) -> Any:
        """The output of a command in JSON."""
        return json.loads(self.run("-o", "json", *arguments)[0])
