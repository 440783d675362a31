"""Problems written as text, one task a line, in their base order.

a = () 100 us=30                a makes the value a of 100 bytes
b = (a) 100+50 us=20 work=7     several values are read as b and b:1; 7 bytes are borrowed meanwhile
c = (b) 100 takes=b fixed       may take the place of b; must not run twice
d = (c, b:1) 10 lasts           what it makes is a result
e = (d)                         makes nothing
"""

from __future__ import annotations

import random
import re

from lowtide.planning.problem import PlanningProblem

# Bytes in use: 100, 200, 300, 310, 220, 120.
THREE_LAYERS = """
    a = () 100 us=30
    b = (a) 100 us=20
    c = (b) 100 us=10
    dc = (c) 10
    db = (dc, b) 10
    da = (db, a) 10
"""

_LINE = re.compile(r"(\w+) = \((.*?)\)\s*([\d+]*)\s*(.*)")


def make_problem(text: str, base_bytes: int = 0) -> PlanningProblem:
    """The problem of a text."""
    problem = PlanningProblem(base_bytes=base_bytes)
    value_of: dict[str, int] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, reads, sizes, rest = _LINE.fullmatch(line).groups()
        details = dict(re.findall(r"(\w+)=(\S+)", rest))
        problem.reads.append(tuple(value_of[each.strip()] for each in reads.split(",") if each.strip()))
        made = []
        for port, size in enumerate(filter(None, sizes.split("+"))):
            value_of[f"{name}:{port}" if port else name] = len(problem.sizes)
            made.append(len(problem.sizes))
            problem.sizes.append(int(size))
            problem.lasting.append("lasts" in rest.split())
        problem.makes.append(tuple(made))
        sources = [value_of[each] for each in details.get("takes", "").split(",") if each]
        problem.reuses.append(tuple((made[0], source) for source in sources))
        problem.cost_us.append(float(details.get("us", 10)))
        problem.workspace.append(int(details.get("work", 0)))
        problem.can_remat.append("fixed" not in rest.split())
    problem.total_us = sum(problem.cost_us)
    return problem


def random_problem(seed: int, tasks: int = 14) -> PlanningProblem:
    """A problem with a bit of everything: several outputs, takes, workspaces, results, what must not run twice."""
    draw = random.Random(seed)
    problem = PlanningProblem(base_bytes=draw.choice((0, 100)))
    for _ in range(tasks):
        known = range(len(problem.sizes))
        reads = tuple(draw.sample(known, min(len(known), draw.choice((0, 1, 1, 2, 2, 3)))))
        made = range(len(known), len(known) + draw.choice((0, 1, 1, 1, 2)))
        sizes = [draw.choice((10, 20, 40, 40)) for _ in made]
        problem.sizes += sizes
        problem.lasting += [draw.random() < 0.1 for _ in made]
        problem.reads.append(reads)
        problem.makes.append(tuple(made))
        pairs = [(value, read) for value in made for read in reads if problem.sizes[value] == problem.sizes[read]]
        problem.reuses.append(tuple(pairs) if draw.random() < 0.4 else ())
        problem.cost_us.append(draw.choice((0.0, 1.0, 3.0, 10.0)))
        problem.workspace.append(draw.choice((0, 0, 15)))
        problem.can_remat.append(draw.random() < 0.8)
    problem.total_us = sum(problem.cost_us)
    return problem
