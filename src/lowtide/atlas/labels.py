"""Short labels for nodes of several scopes: the parts that distinguish a name from the others, without the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

_LEFT_OUT = "…"
# A last component that would be cut to fewer letters is left out.
_LEAST_LETTERS = 4


def distinct_labels(names: Sequence[str]) -> list[str]:
    """Return a label for each name: its last component, after the nearest components in which the names differ.

    Of `net/block1/conv/kernel` and `net/block2/conv/kernel` the labels are `block1/…/kernel` and `block2/…/kernel`.
    """
    components = [name.split("/")[::-1] for name in names]
    labels = [parts[0] for parts in components]
    waiting = [(list(range(len(names))), 1)]
    while waiting:
        rows, depth = waiting.pop()
        if not any(len(components[row]) > depth for row in rows):
            continue
        by_component: dict[str | None, list[int]] = defaultdict(list)
        for row in rows:
            by_component[_component(components[row], depth)].append(row)
        if len(by_component) > 1:
            for row in rows:
                labels[row] = _prepend(components[row], depth, labels[row])
        for same in by_component.values():
            # Rows that differ already need no more components.
            alike: dict[str, list[int]] = defaultdict(list)
            for row in same:
                alike[labels[row]].append(row)
            waiting += [(group, depth + 1) for group in alike.values() if len(group) > 1]
    return labels


def _component(parts: list[str], depth: int) -> str | None:
    return parts[depth] if depth < len(parts) else None


def _prepend(parts: list[str], depth: int, label: str) -> str:
    if depth >= len(parts):
        return label
    known = label.split("/")
    is_next = known[0] == parts[depth - 1] and _LEFT_OUT not in known
    return f"{parts[depth]}/{label}" if is_next or known[0] == _LEFT_OUT else f"{parts[depth]}/{_LEFT_OUT}/{label}"


def fit_labels(labels: Sequence[str], most: int) -> list[str]:
    """Cut labels to at most `most` letters, so that different labels stay different where that is possible."""
    fitted = [fit_label(label, most) for label in labels]
    fitted = _refit(labels, fitted, lambda label, _: _fit_ends(label, most))
    return _refit(labels, fitted, lambda label, others: _fit_tail(label, others, most))


def _refit(labels: Sequence[str], fitted: list[str], fit: Callable[[str, set[str]], str]) -> list[str]:
    """Cut those labels in another way that became equal though they differ."""
    alike: dict[str, set[str]] = defaultdict(set)
    for label, text in zip(labels, fitted, strict=True):
        alike[text].add(label)
    return [
        fit(label, alike[text]) if len(alike[text]) > 1 else text for label, text in zip(labels, fitted, strict=True)
    ]


def fit_label(label: str, most: int) -> str:
    """Cut a label: of a path the middle components go, then the last one; other texts lose their middle."""
    if len(label) <= most:
        return label
    first, _, rest = label.partition("/")
    if "/" in rest and len(first) + 3 + _LEAST_LETTERS <= most:
        label = f"{first}/{_LEFT_OUT}/{rest.rpartition('/')[2]}"
        if len(label) <= most:
            return label
    head, slash, last = label.rpartition("/")
    room = most - len(head) - 1
    if not slash or room < 1:
        return _cut_middle(label if not slash else head, most)
    return f"{head}/{last[: room - 1]}{_LEFT_OUT}" if room > _LEAST_LETTERS else f"{head}/{_LEFT_OUT}"


def _fit_ends(label: str, most: int) -> str:
    """Cut the first and the last component of a path, and leave out those between."""
    first, slash, rest = label.partition("/")
    between, _, last = rest.rpartition("/")
    link = f"/{_LEFT_OUT}/" if between else "/"
    ending = last if len(last) <= most // 3 else f"{last[: most // 3]}{_LEFT_OUT}"
    room = most - len(link) - len(ending)
    return f"{_cut_middle(first, room)}{link}{ending}" if slash and room > _LEAST_LETTERS else fit_label(label, most)


def _fit_tail(label: str, others: Iterable[str], most: int) -> str:
    """Leave out the beginning that a label shares with others."""
    letters = zip(*others, strict=False)
    shared = sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, letters))
    tail = label[max(0, shared - 2) :]
    return _LEFT_OUT + (tail if len(tail) < most else f"{tail[: most - 2]}{_LEFT_OUT}")


def shorten(text: str, most: int) -> str:
    """Shorten a text that stands alone: a path loses its first components, other texts lose their middle."""
    if len(text) <= most:
        return text
    parts = text.split("/")
    if len(parts) == 1:
        return _cut_middle(text, most)
    kept = parts.pop()
    while parts and len(parts[-1]) + len(kept) + 3 <= most:
        kept = f"{parts.pop()}/{kept}"
    return f"…/{kept}" if len(kept) + 2 <= most else f"…{kept[-(most - 1) :]}"


def _cut_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[: most - 1 - half]}{_LEFT_OUT}{text[-half:]}"
