"""Small messages to several sockets, sent with one system call.

With a call for each message, the first receiver may preempt the sender, which then sends the second message when that
receiver waits again: processes that could run in parallel run one after the other. With one call, the kernel wakes up
all receivers before one of them can preempt the sender.

This needs Linux's io_uring, which some containers forbid. Without it, messages are sent one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ottla.base import native

if TYPE_CHECKING:
    from ottla.base._sends import SendRing

SENDS_MAX: Final = 16
"""How many messages can be sent with one call."""


class Sends(Protocol):
    def send(self, descriptors: list[int], messages: list[bytes | memoryview]) -> list[int]:
        """Send each message to its socket as far as it accepts it, without waiting.

        Return the number of accepted bytes for each, or the negative errno.
        """
        ...


def make_sends() -> SendRing | None:
    """The compiled sender; None where it was not built, is not wanted, or the kernel does not allow it."""
    if native.WANTED:
        try:
            from ottla.base._sends import SendRing

            return SendRing()
        except (ImportError, OSError):
            pass
    return None
