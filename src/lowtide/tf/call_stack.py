"""Which function and line of the user's program is being executed."""

from __future__ import annotations

import sys
import types

from lowtide.tf.trace.source_lines import is_user_file


def user_line() -> str | None:
    """The innermost line of the user's program that is being executed, as "file.py:12"."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def outermost_caller(names: frozenset[str], package: str) -> str | None:
    """The outermost function on the stack that has one of these names and belongs to the package."""
    found = None
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name in names and package in code.co_filename:
            found = code.co_name
        frame = frame.f_back
    return found
