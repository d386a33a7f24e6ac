"""The cluster that global options, environment and contexts select."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.admin.contexts import LOCAL, Context, ContextFolder
from ottla.base.errors import LocalError
from ottla.cli.context import GlobalOptions, Target, parse_settings, report_unused, target_of, timeout_s


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    folder = ContextFolder.of_user({"XDG_CONFIG_HOME": str(tmp_path)})
    folder.save(Context("named", "named:1", {"security.protocol": "SSL"}))
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_order_of_addresses(environment: dict[str, str]) -> None:
    """Each step adds what precedes all steps before it."""
    options = GlobalOptions()
    assert target_of(options, environment).bootstrap == "127.0.0.1:9092"
    folder = ContextFolder.of_user(environment)
    folder.save(Context(LOCAL, "local:1"))
    assert target_of(options, environment).bootstrap == "local:1"
    folder.save(Context("current", "current:1"))
    folder.use("current")
    assert target_of(options, environment).bootstrap == "current:1"
    environment["OTTLA_CONTEXT"] = "named"
    assert target_of(options, environment).bootstrap == "named:1"
    environment["KAFKA_BOOTSTRAP_SERVERS"] = "kafka:1"
    assert target_of(options, environment).bootstrap == "kafka:1"
    environment["OTTLA_BOOTSTRAP"] = "ottla:1"
    assert target_of(options, environment).bootstrap == "ottla:1"
    options = GlobalOptions(context="current")
    assert target_of(options, environment).bootstrap == "current:1"
    options = GlobalOptions(context="current", bootstrap="given:1")
    assert target_of(options, environment).bootstrap == "given:1"


def test_settings_of_the_command_line_precede_those_of_the_context(environment: dict[str, str]) -> None:
    options = GlobalOptions(context="named", settings=("client.id=x", "security.protocol=PLAINTEXT"))
    assert target_of(options, environment).settings == {"client.id": "x", "security.protocol": "PLAINTEXT"}


def test_an_unknown_context_is_refused_with_the_known_ones(environment: dict[str, str]) -> None:
    with pytest.raises(LocalError, match=r"there is no context 'x'.*\(contexts: named\)"):
        target_of(GlobalOptions(context="x"), environment)


@pytest.mark.parametrize("empty", ["", " ", ","])
def test_an_empty_address_is_refused(environment: dict[str, str], empty: str) -> None:
    """An unset variable of a script must not lead to the default cluster."""
    with pytest.raises(LocalError, match="-b is empty"):
        target_of(GlobalOptions(bootstrap=empty).over(GlobalOptions(bootstrap="a:1")), environment)


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"security.protcol": "SSL"}, "security.protcol has no effect; did you mean security.protocol?"),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location has no effect with security.protocol=PLAINTEXT"),
        ({"linger.ms": "5"}, "linger.ms has no effect\n"),
        ({"client.id": "x", "retry.backoff.ms": "5"}, ""),
    ],
)
def test_settings_without_effect_are_reported(
    given: dict[str, str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report_unused(Target("a:1", given, "-b"), given)
    shown = capsys.readouterr().err
    assert reported in shown
    assert bool(shown) == bool(reported)


def test_options_after_the_command_precede_those_before_it() -> None:
    before = GlobalOptions("a:1", "c", ("k=1",), "json", "1s")
    after = GlobalOptions(bootstrap="b:1", settings=("k=2",))
    assert after.over(before) == GlobalOptions("b:1", "c", ("k=1", "k=2"), "json", "1s")


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, 10), ("500ms", 0.5), ("2", 2), ("1.5", 1.5), ("1m", 60)]
)
def test_timeouts(given: str | None, seconds: float) -> None:
    assert timeout_s(GlobalOptions(timeout=given)) == seconds


@pytest.mark.parametrize("given", ["0", "soon", "-1s"])
def test_invalid_timeouts(given: str) -> None:
    with pytest.raises(LocalError):
        timeout_s(GlobalOptions(timeout=given))


def test_settings() -> None:
    assert parse_settings(["a=b=c", " d =", "a=2"]) == {"a": "2", "d": ""}
    for invalid in ("a", "=b"):
        with pytest.raises(LocalError, match=r"^--set: .* is not KEY=VALUE"):
            parse_settings([invalid], "--set")
