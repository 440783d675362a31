"""Rules of tests: one whose correction is safe, and one whose correction leaves no program."""

from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule


def _find_identities(module):
    for call in module.calls("tensorflow.identity"):
        text = module.text(call.args[0])
        yield Problem(call, "identity copies nothing", "leave it out", (module.replace(call, text),))


def _find_squares(module):
    for call in module.calls("tensorflow.square"):
        yield Problem(call, "square is not wanted", "leave it out", (module.replace(call, "(("),))


def _find_prints(module):
    """Replace `tf.print(...)` with two lines."""
    for call in module.calls("tensorflow.print"):
        indent = " " * call.col_offset
        yield Problem(
            call, "print is slow", "log it", (module.replace(call, f"import logging\n{indent}logging.info('é')"),)
        )


IDENTITY = Rule("LT901", "identity", _find_identities, "Text.")
SQUARE = Rule("LT902", "square", _find_squares, "Text.")
PRINT = Rule("LT903", "print", _find_prints, "Text.")
ALL = (IDENTITY, SQUARE, PRINT)
