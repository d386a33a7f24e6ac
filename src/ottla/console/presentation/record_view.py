"""Records as the pages show them: text only, limited in size, JSON with colours, hexadecimal. Pure.

Records are hostile input. `Decoder` limits size and depth, `visible` shows characters that a reader cannot see as
escapes, and the templates escape everything. The spans of coloured JSON are made here, around escaped text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from ottla.admin.records.decode import Decoded, Decoder, Form
from ottla.admin.records.scan import ConsumedRecord
from ottla.console.presentation.formats import visible

PREVIEW_CHARS = 240
DETAIL_CHARS = 16_000
"""More than this is shown on the page of the record only."""
RECORD_BYTES_MAX = 1 << 20
LIST_BYTES_MAX = 64 << 10
HEX_BYTES_MAX = 16 << 10
FORMS = (Form.AUTO, Form.JSON, Form.TEXT, Form.HEX)
_LINE = 16
_TOKEN = re.compile(
    r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b',
    re.DOTALL,
)
"""A text that was cut has no closing quote. The quantifier is possessive, so that such a text is read only once."""


@dataclass(frozen=True)
class ShownText:
    """A key, value or header as text."""

    kind: str
    """null, or the form that was used."""
    preview: str
    """One line."""
    text: str
    markup: Markup
    note: str
    cut: bool
    """Whether `text` is not the whole."""


@dataclass(frozen=True)
class ShownRecord:
    """A record for a template."""

    record: ConsumedRecord
    key: ShownText
    value: ShownText
    headers: tuple[tuple[str, ShownText], ...]


def form_of(text: str) -> Form:
    """The form that a query parameter names; automatic for anything else."""
    return Form(text) if text in FORMS else Form.AUTO


def show_record(
    record: ConsumedRecord,
    form: Form = Form.AUTO,
    *,
    bytes_max: int = LIST_BYTES_MAX,
    chars: int = DETAIL_CHARS,
) -> ShownRecord:
    decoder = Decoder(form, size_max=bytes_max)

    def show(data: bytes | None) -> ShownText:
        if form is Form.HEX and data is not None:
            return _shown(Decoded(Form.HEX, hex_dump(data[:HEX_BYTES_MAX])), len(data), HEX_BYTES_MAX, chars)
        return _shown(decoder.decode(data), len(data or b""), bytes_max, chars)

    headers = tuple((visible(name[:PREVIEW_CHARS]), show(value)) for name, value in record.headers)
    return ShownRecord(record, show(record.key), show(record.value), headers)


def _shown(decoded: Decoded, size: int, size_max: int, chars: int) -> ShownText:
    whole = decoded.text(indent=2)
    cut = len(whole) > chars or size > size_max
    text = visible(whole[:chars])
    line = whole if not decoded.is_document else decoded.text()
    preview = visible(line[: PREVIEW_CHARS + 1]).replace("\n", " ")
    if len(preview) > PREVIEW_CHARS:
        preview = preview[:PREVIEW_CHARS] + "…"
    note = decoded.note or (f"The first {size_max:,} of {size:,} bytes." if size > size_max else "")
    markup = coloured(text) if decoded.is_document else escape(text)
    return ShownText(decoded.kind, preview, text, markup, note, cut)


def coloured(text: str) -> Markup:
    """JSON text as markup in which names, texts, numbers and words have a class each."""
    parts: list[Markup] = []
    position = 0
    for found in _TOKEN.finditer(text):
        parts.append(escape(text[position : found.start()]))
        quoted, colon, number, _ = found.groups()
        kind = ("j-name" if colon else "j-text") if quoted else "j-number" if number else "j-word"
        shown = quoted if quoted else found[0]
        parts.append(Markup('<span class="{}">{}</span>').format(kind, shown))
        position = found.start() + len(shown)
    parts.append(escape(text[position:]))
    return Markup("").join(parts)


def hex_dump(data: bytes) -> str:
    """Offsets, sixteen bytes and their printable characters in each line."""
    lines = []
    for start in range(0, len(data), _LINE):
        row = data[start : start + _LINE]
        digits = " ".join(f"{each:02x}" for each in row)
        characters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{start:08x}  {digits:<{3 * _LINE - 1}}  {characters}")
    return "\n".join(lines)
