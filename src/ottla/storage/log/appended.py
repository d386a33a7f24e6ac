"""The input and the result of an append."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.base.files import Buffer
from ottla.records.batch import BatchHeader


class Appendable(Protocol):
    """A validated batch (`records.validation.ValidBatch`): exactly its bytes, and its header."""

    @property
    def data(self) -> Buffer: ...

    @property
    def header(self) -> BatchHeader: ...


class Appended(msgspec.Struct, gc=False, frozen=True):
    """The position of a batch.

    `log_append_time_ms` is -1 unless the broker set the time, or the batch was there already.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    duplicate: bool = False
