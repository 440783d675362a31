"""A tape around a loop over a dataset keeps the activations of all its batches.

A tape records from the beginning to the end of its `with` block, and frees nothing before `gradient`. With a loop over
batches in it, the memory of a step is multiplied by the number of batches in the epoch. Make a tape in each step. If
the gradient of the whole dataset is wanted, compute the gradients of each batch with its own tape and add them up: the
gradient of a sum is the sum of the gradients.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import find_batches, find_tape, known_rounds, own_nodes
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

# A loop over as few batches may be meant.
_FEW = 4


def _check(module: Module) -> Iterator[Problem]:
    for statement in module.nodes(ast.With):
        item = find_tape(module, statement)
        if item is None or not isinstance(item.optional_vars, ast.Name):
            continue
        for loop in own_nodes(*statement.body):
            if not isinstance(loop, ast.For):
                continue
            batches = find_batches(module, loop)
            rounds = known_rounds(module, loop)
            if batches is None or (rounds is not None and rounds <= _FEW) or not _is_step(module, loop):
                continue
            if _is_used(module, statement, item.optional_vars.id):
                yield Problem(
                    statement,
                    f"the tape is around the loop over {module.short_text(batches)} in {module.line(loop)}:"
                    f" it keeps the activations of all batches until {item.optional_vars.id}.gradient is called",
                    "make the tape within the loop, for one batch; to get the gradient of all batches, add up theirs",
                )
                break


def _is_step(module: Module, loop: ast.For) -> bool:
    """Whether a loop calls something on its batches, outside of a tape of its own."""
    nodes = list(own_nodes(*loop.body))
    if any(isinstance(each, ast.With) and find_tape(module, each) is not None for each in nodes):
        return False
    names = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    return any(
        isinstance(each, ast.Call)
        and any(isinstance(part, ast.Name) and part.id in names for given in each.args for part in ast.walk(given))
        for each in nodes
    )


def _is_used(module: Module, statement: ast.With, tape: str) -> bool:
    """Whether the gradients of the tape are computed, in its function."""
    around = module.function_around(statement) or module.tree
    body = around.body if isinstance(around.body, list) else [around.body]
    return any(
        isinstance(each, ast.Attribute)
        and each.attr == "gradient"
        and isinstance(each.value, ast.Name)
        and each.value.id == tape
        for each in own_nodes(*body)
    )


RULE = Rule("LT404", "tape around an epoch", _check, __doc__)
