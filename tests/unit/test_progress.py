"""The text of progress."""

import pytest

from lowtide.progress import Progress


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("tracing"), "tracing"),
        (Progress("searching", 2, 5), "searching: 40%"),
        (Progress("tracing", left_seconds=24.6), "tracing, about 25 s left"),
        (Progress("searching", 2, 5, left_seconds=0.1), "searching: 40%, about 1 s left"),
        (Progress("reading", nodes=1200), "reading, 1,200 nodes"),
    ],
)
def test_the_text_of_progress(progress, text):
    assert str(progress) == text
