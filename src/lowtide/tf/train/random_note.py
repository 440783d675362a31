"""Says when a step draws random numbers whose state no checkpoint can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowtide.tf.hooks import EndCall, Listener, add_listener, remove_listener
from lowtide.tf.record.training_calls import function_trains
from lowtide.tf.train.state import find_unrestored_random
from lowtide.units import format_count

_SHOWN = 3


class RandomNote(Listener):
    """Looks at the first step of a training, and calls `note` if its random numbers differ after a restart."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._is_listening = True
        add_listener(self)

    def begin_concrete_call(self, concrete: Any, inputs: Any) -> EndCall | None:
        """Look at the graph of a function that trains."""
        if self._is_listening and function_trains(concrete):
            self.stop()
            found = find_unrestored_random(concrete.graph)
            if found:
                names = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
                count = format_count(len(found), "op of the step draws", "ops of the step draw")
                self._note(
                    f"{count} random numbers that differ after a restart, because TensorFlow cannot save their state:"
                    f" {names}; keras.random and tf.random.Generator can be restored"
                )
        return None

    def stop(self) -> None:
        """Stop listening."""
        if self._is_listening:
            self._is_listening = False
            remove_listener(self)
