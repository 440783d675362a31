"""What other optimizers would keep and need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras

from lowtide.planning.remedies.at_peak import state_bytes, wide_slots
from lowtide.planning.remedies.remedy import COUNTED, Remedy, lowered
from lowtide.tf.plan.precision import forget_functions, set_training
from lowtide.tf.remedies.subject import Subject
from lowtide.units import format_bytes

# Other optimizers are tried if the state takes this share of the peak.
_NOTABLE_STATE = 0.04
# The learning rate does not matter here.
_OTHERS: dict[str, Callable[..., Any]] = {
    "SGD(momentum=0.9)": lambda **shared: keras.optimizers.SGD(momentum=0.9, **shared),
    "Lion()": keras.optimizers.Lion,
    "Adafactor()": keras.optimizers.Adafactor,
}
# Arguments that all optimizers of Keras take; some of them mean more state.
_SHARED = (
    "weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "use_ema", "ema_momentum", "ema_overwrite_frequency",
    "loss_scale_factor", "gradient_accumulation_steps",
)  # fmt: skip


def try_optimizers(subject: Subject) -> Iterator[Remedy]:
    """Yield what other optimizers would save."""
    state = state_bytes(subject.tide)
    model = subject.model
    if model is None or state < _NOTABLE_STATE * subject.tide.peak_bytes:
        return
    current = _inner(model.optimizer)
    for name, make in _OTHERS.items():
        if type(current).__name__ == name.partition("(")[0]:
            continue
        with subject.trying(name), _with_optimizer(model, make(**_shared_arguments(current))):
            after = subject.predict_changed(f"trying {name}")
            if subject.notes_loss(after, name):
                continue
            other = state_bytes(after)
            takes = f"the state of {type(current).__name__} takes {format_bytes(state)}"
            problem = f"{takes}, that of {name} {format_bytes(other)}"
            advice = f"compile with optimizer=keras.optimizers.{name}, and tune its learning rate"
            changes = "another optimizer leads to other weights"
            # Less state saves its bytes throughout, unless the update becomes the peak.
            less = max(state - other, 0)
            yield lowered(subject.tide, after, "optimizer", problem, advice, most_bytes=less, changes=changes)


def narrow_slots(subject: Subject) -> Iterator[Remedy]:
    """Yield what slots in the dtype of their variables would save."""
    slots = wide_slots(subject.tide)
    if not slots:
        return
    total = sum(slot.bytes for slot in slots)
    yield Remedy(
        "optimizer",
        f"the optimizer keeps {len(slots):,} float32 slots of variables in half precision: {format_bytes(total)}",
        "make the slots with the dtype of their variables",
        total // 2,
        changes="sums of small updates lose digits",
        method=COUNTED,
    )


def _inner(optimizer: Any) -> Any:
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    return optimizer


def _shared_arguments(optimizer: Any) -> dict[str, Any]:
    config = optimizer.get_config()
    return {name: config[name] for name in _SHARED if name in config}


@contextmanager
def _with_optimizer(model: keras.Model, optimizer: Any) -> Iterator[None]:
    """Give a model another optimizer within a context."""
    before = model.optimizer
    if isinstance(before, keras.optimizers.LossScaleOptimizer):
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    set_training(model, optimizer)
    forget_functions(model)
    try:
        yield
    finally:
        set_training(model, before)
        forget_functions(model)
