"""Writers of records for `ottla consume`: lines for people, formats, JSON, JSON lines and CSV.

Writers write bytes to a binary stream, so that formats and JSON lines are exact. Only lines for people, and formats on
a terminal, are made safe for a terminal: the contents of records are not trusted.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import BinaryIO, Final

from ottla.admin.records.decode import Decoder, Form, printable
from ottla.admin.records.record_format import RecordFormat, iso_time
from ottla.admin.records.record_json import as_dict, to_line
from ottla.admin.records.scan import ConsumedRecord

CSV_COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_base64",
    "value",
    "value_base64",
)
LINE_BYTES_MAX: Final = 64 << 10
"""The part of a key or value that is shown in a line."""
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


class RecordWriter(ABC):
    """Writes records one after another. `finish` is called once, after the last one."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    @abstractmethod
    def write(self, record: ConsumedRecord) -> None:
        """Write one record."""

    def finish(self) -> None:  # noqa: B027 - most formats have no end
        """Write what follows the last record."""


class LineWriter(RecordWriter):
    """One line per record for people: time, partition and offset, key, value, headers."""

    def __init__(self, out: BinaryIO, form: Form, schema: object = None, *, color: bool = False) -> None:
        super().__init__(out)
        self._decoder = Decoder(form, size_max=LINE_BYTES_MAX, schema=schema)
        self._dim = (lambda text: f"{_DIM}{text}{_RESET}") if color else str

    def write(self, record: ConsumedRecord) -> None:
        source = f"{iso_time(record.timestamp) or '-'} {record.topic}-{record.partition}@{record.offset}"
        parts = [self._dim(source), self._shown(record.key), self._shown(record.value)]
        if record.headers:
            headers = ", ".join(f"{printable(name)}={self._shown(value)}" for name, value in record.headers)
            parts.append(self._dim(f"[{headers}]"))
        self._out.write(("  ".join(parts) + "\n").encode("utf-8", "replace"))

    def _shown(self, data: bytes | None) -> str:
        if not data:
            return self._dim("<null>" if data is None else "<empty>")
        decoded = self._decoder.decode(data)
        text = printable(decoded.text()).replace("\n", "\\n").replace("\t", "\\t")
        prefix = "0x" if decoded.kind == Form.HEX else ""
        return f"{prefix}{text}" + (self._dim(f" ({printable(decoded.note)})") if decoded.note else "")


class FormatWriter(RecordWriter):
    """A format with fields. Keys and values are written as they are unless a form is requested."""

    def __init__(
        self, out: BinaryIO, text: str, form: Form, schema: object = None, *, terminal: bool = False
    ) -> None:
        super().__init__(out)
        self._format = RecordFormat(text)
        decoder = Decoder(form, schema=schema)
        if form is Form.AUTO and not terminal:
            self._show: Callable[[bytes | None], bytes] = lambda data: data or b""
        else:
            clean = printable if terminal else str
            self._show = lambda data: clean(decoder.decode(data).text()).encode("utf-8", "replace")

    def write(self, record: ConsumedRecord) -> None:
        self._out.write(self._format.render(record, self._show))


class JsonLinesWriter(RecordWriter):
    """JSON lines that can be produced again; exact unless a form is requested."""

    def __init__(self, out: BinaryIO, form: Form, schema: object = None) -> None:
        super().__init__(out)
        self._decoder = None if form is Form.AUTO else Decoder(form, schema=schema)

    def write(self, record: ConsumedRecord) -> None:
        self._out.write(to_line(record, self._decoder) + b"\n")


class JsonWriter(JsonLinesWriter):
    """One JSON array."""

    _is_first = True

    def write(self, record: ConsumedRecord) -> None:
        self._out.write((b"[\n" if self._is_first else b",\n") + to_line(record, self._decoder))
        self._is_first = False

    def finish(self) -> None:
        self._out.write(b"[]\n" if self._is_first else b"\n]\n")


class CsvWriter(RecordWriter):
    """CSV with a row of names. Headers are not included: CSV has no lists."""

    def __init__(self, out: BinaryIO, form: Form, schema: object = None) -> None:
        super().__init__(out)
        self._decoder = None if form is Form.AUTO else Decoder(form, schema=schema)
        self._row(CSV_COLUMNS)

    def write(self, record: ConsumedRecord) -> None:
        shown = as_dict(record)
        if self._decoder is not None:
            texts = {
                name: self._decoder.decode(data).text()
                for name, data in (("key", record.key), ("value", record.value))
            }
            shown = {
                **{name: shown.get(name) for name in ("topic", "partition", "offset", "timestamp")},
                **texts,
            }
        self._row([shown.get(name) for name in CSV_COLUMNS])

    def _row(self, cells: object) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)  # type: ignore[arg-type]
        self._out.write(text.getvalue().encode())
