"""The arguments of `ottla broker`."""

from __future__ import annotations

import pytest

from ottla.cli import broker


@pytest.mark.parametrize("port", ["0", "99999", "x", "-1", "", "²"])
def test_a_port_that_does_not_exist_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker.main([f"--port={port}"])
    assert ended.value.code == 2
    assert f"argument --port: {port!r}; allowed: 1 to 65535" in capsys.readouterr().err
