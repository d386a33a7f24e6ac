"""Contexts in a user's configuration folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.admin.contexts import LOCAL, Context, ContextFolder, local_cluster, parse_properties
from ottla.base.errors import LocalError


@pytest.fixture
def folder(tmp_path: Path) -> ContextFolder:
    return ContextFolder.of_user({"XDG_CONFIG_HOME": str(tmp_path)})


def test_the_folder_follows_the_environment(tmp_path: Path) -> None:
    assert ContextFolder.of_user({"HOME": str(tmp_path)}).path == tmp_path / ".config" / "ottla"


def test_a_context_is_read_as_it_was_written(folder: ContextFolder) -> None:
    written = Context("a", "one:1,two:2", {"sasl.password": "a=b\\c", "ssl.ca.pem": "x\ny"}, Path("d"), 7)
    path = folder.save(written)
    assert folder.load("a") == written
    assert path.stat().st_mode & 0o077 == 0
    assert folder.names() == ["a"]


def test_a_file_of_client_settings_is_a_context(folder: ContextFolder, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# comment\n! other\n\nbootstrap.servers = h:1\nsecurity.protocol=SSL\n")
    assert folder.load(str(file)).settings == {"security.protocol": "SSL"}
    file.write_text("security.protocol=SSL\n")
    with pytest.raises(LocalError, match=r"has no bootstrap\.servers"):
        folder.load(str(file))


def test_a_directory_is_no_context(folder: ContextFolder, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="is a directory, not a file with client settings"):
        folder.load(str(tmp_path))


def test_the_current_context_precedes_that_of_a_local_cluster(folder: ContextFolder) -> None:
    assert folder.default() is None
    folder.save(Context(LOCAL, "h:1"))
    assert folder.default() == Context(LOCAL, "h:1")
    folder.save(Context("other", "h:2"))
    folder.use("other")
    assert folder.default() == Context("other", "h:2")
    folder.delete("other")
    assert folder.default() == Context(LOCAL, "h:1")


def test_unknown_and_invalid_names_are_refused(folder: ContextFolder) -> None:
    with pytest.raises(LocalError, match="there is no context 'x'"):
        folder.use("x")
    with pytest.raises(LocalError, match="there is no context 'x'"):
        folder.delete("x")
    with pytest.raises(LocalError, match="is not a name"):
        folder.save(Context("../x", "h:1"))


def test_a_local_cluster_is_found_by_one_of_its_addresses(folder: ContextFolder, tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    folder.save(Context("remote", "h:1"))
    folder.save(Context(LOCAL, "h:1,h:2", data=tmp_path))
    found = local_cluster("h:2,h:9", environment)
    assert found is not None
    assert found.data == tmp_path
    assert local_cluster("h:9", environment) is None


def test_values_may_contain_the_separator() -> None:
    assert parse_properties("a=b=c\nd=\n") == {"a": "b=c", "d": ""}
