"""The folder with the credentials of a secured cluster."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.local.secure.folder import NodePlan, SecureFolder

NOW = dt.datetime.now(dt.UTC)
PLANS = [NodePlan(node_id, ("localhost",), {"node.id": str(node_id)}) for node_id in range(2)]


def settings(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_every_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path / "secure")
    folder.create("test", "localhost:9092", PLANS, NOW)
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    assert len(files) == 6 + 2 * len(PLANS)
    for path in (folder.path, *folder.path.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_each_node_has_its_own_key_and_all_are_super_users(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path / "secure")
    folder.create("test", "localhost:9092", PLANS, NOW)
    first, second = (settings(folder.server_properties(each.node_id)) for each in PLANS)
    assert (first["node.id"], second["node.id"]) == ("0", "1")
    assert first["super.users"] == second["super.users"] == "User:admin;User:node-0;User:node-1"
    assert (
        Path(first["ssl.keystore.location"]).read_text() != Path(second["ssl.keystore.location"]).read_text()
    )


def test_the_password_of_the_console_is_not_that_of_the_administrator(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path / "secure")
    folder.create("test", "localhost:9092", PLANS, NOW)
    password = settings(folder.client_settings)["sasl.password"]
    assert folder.console_password() != password
    assert password in folder.first_users.read_text()
    assert f'password="{password}"' in (folder.path / "admin-java.properties").read_text()
    for node in PLANS:
        assert password not in folder.server_properties(node.node_id).read_text()


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path)
    (tmp_path / "something").touch()
    with pytest.raises(LocalError, match="not empty"):
        folder.create("test", "localhost:9092", PLANS, NOW)
    assert not folder.exists
