"""A short answer at the top of a page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerCard:
    """What a question is about, the answer in a word or a number, and the reason."""

    about: str
    value: str
    reason: str
    fits: bool | None = None
    """None where the answer is not about a budget."""
