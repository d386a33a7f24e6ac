"""The error without the package `cryptography` names what to install."""

from __future__ import annotations

import sys

import pytest

from ottla.base.errors import LocalError
from ottla.security.extra import require_cryptography


def test_the_installed_package_is_accepted() -> None:
    require_cryptography("a key store")


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(LocalError, match=r"a key store needs .* pip install 'ottla\[security\]'"):
        require_cryptography("a key store")
