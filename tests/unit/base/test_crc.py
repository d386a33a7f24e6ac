"""CRC-32C without the imports of its package."""

from __future__ import annotations

import subprocess
import sys

from ottla.base.crc import crc32c


def test_known_values() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == 0xE3069283


def test_the_package_itself_is_not_imported() -> None:
    code = "import sys, ottla.base.crc; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
