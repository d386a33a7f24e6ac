"""The text form of what is left to read."""

from __future__ import annotations

import pytest

from ottla.admin.records.browse import OffsetRange
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.console.presentation.cursor import Cursor, cursor_of, unread


def test_a_cursor_survives_its_text_form() -> None:
    cursor = Cursor(
        100, 7, {TopicPartition("a", 0): OffsetRange(5, 20), TopicPartition("a", 12): OffsetRange(0, 9)}
    )
    assert cursor.text() == "100,7;0:5-20,12:0-9"
    assert cursor_of("a", cursor.text()) == cursor
    assert cursor.left == 24


def test_nothing_left_is_an_empty_list() -> None:
    assert cursor_of("a", "10,3;") == Cursor(10, 3, {})
    done = {TopicPartition("a", 0): OffsetRange(9, 9)}
    assert unread(10, 3, done).ranges == {}


@pytest.mark.parametrize(
    "text", ["", "x", "1;0:1-2", "1,2;0:1", "1,2;0:-1-2", "1,2;0:1-2;", f"1,{'9' * 30};"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(LocalError):
        cursor_of("a", text)
