"""The line of user code that raised an exception."""

import inspect
import re
import traceback
from pathlib import Path

import lowtide.errors

# Where code lies that is not the user's: Python, lowtide, and what the import system and AutoGraph generate.
_OTHERS = ("<frozen", str(Path(inspect.__file__).parent), str(Path(lowtide.errors.__file__).parent))
_INSTALLED = ("site-packages", "dist-packages", "__autograph_generated_file")
# AutoGraph lists lines of user code in the message, and marks them with an asterisk.
_AUTOGRAPH_LINE = re.compile(r'File "([^"]+)", line (\d+), in .*\*\s*$', re.MULTILINE)


def find_raising_line(error: BaseException) -> str | None:
    """Return "file.py:line", the innermost frame of user code; None if an exception came from libraries alone."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name}:{error.lineno}"
    lines = [(path, int(line)) for path, line in _AUTOGRAPH_LINE.findall(str(error))] or [
        (frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)
    ]
    users = [(path, line) for path, line in lines if _is_users(path)]
    return f"{Path(users[-1][0]).name}:{users[-1][1]}" if users else None


def _is_users(path: str) -> bool:
    return not path.startswith(_OTHERS) and not any(name in path for name in _INSTALLED)
