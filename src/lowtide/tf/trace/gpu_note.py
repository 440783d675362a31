"""The note of predictions on a machine with GPUs: the facts about kernels are those of the CPU."""

from collections.abc import Sequence

import tensorflow as tf


def gpu_notes() -> tuple[str, ...]:
    """Return the note for the GPUs that TensorFlow sees; nothing where it sees none."""
    return notes_on_gpus([device.name for device in tf.config.list_physical_devices("GPU")])


def notes_on_gpus(names: Sequence[str]) -> tuple[str, ...]:
    """Return what a prediction says on a machine whose GPUs have these names."""
    if not names:
        return ()
    found = "a GPU" if len(names) == 1 else f"{len(names)} GPUs"
    why = "GPU kernels take other workspace, and lowtide's predictions have not been checked on a GPU"
    return (f"TensorFlow sees {found}, but this is a prediction for CPU kernels: {why}",)
