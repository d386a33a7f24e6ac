"""The optional package `cryptography`, which the extra `ottla[security]` installs.

TLS with PEM files needs the standard library only. Modules that need more call `require_cryptography` before they
import the package, within the function that needs it.
"""

from __future__ import annotations

from ottla.base.errors import LocalError


def require_cryptography(purpose: str) -> None:
    """Raise LocalError if the package is not installed. `purpose` is the subject of the message."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise LocalError(
            f"{purpose} needs the package cryptography: pip install 'ottla[security]'"
        ) from error
