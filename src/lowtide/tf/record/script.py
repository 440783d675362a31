"""The part of `lowtide run` that runs inside the script's process, after the script has imported TensorFlow."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf
from tensorflow.python.eager import context

from lowtide.run.machine import peak_resident_bytes
from lowtide.run.record import report_failure
from lowtide.tf.hooks import add_listener, remove_listener
from lowtide.tf.record.call_listener import ScriptListener
from lowtide.tf.record.crash_handler import install_crash_handler
from lowtide.tf.record.device import bytes_in_use, limit_bytes
from lowtide.tf.record.held_objects import HeldObjects
from lowtide.tf.record.recorder import Recorder

# The crashing thread may hold the recorder's lock.
LOCK_SECONDS = 1.0

_listener: ScriptListener | None = None


def limit_gpus(limit_bytes: int) -> None:
    """Give each GPU a hard limit, as the environment does for the CPU; must be called before devices are used."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=limit_bytes >> 20)
        tf.config.set_logical_device_configuration(gpu, [limit])
    if gpus:
        # TensorFlow raises if a script enables memory growth for a device that has a limit.
        context.context().set_memory_growth = lambda device, enable: None


def begin(folder: str, steps: int) -> bool:
    """Start recording this process, with this number of steady steps; returns True."""
    global _listener
    recorder = Recorder(Path(folder), steps, limit_bytes())
    recorder.save()
    recorder.open_window()
    recorder.held = HeldObjects(recorder.record_owners, bytes_in_use, lambda: report_failure(recorder.folder))
    recorder.held.start()
    _listener = ScriptListener(recorder)
    add_listener(_listener)
    install_crash_handler(recorder.folder, lambda: _finish_after_crash(recorder))
    return True


def end(process: int) -> None:
    """Write the results when the script has ended; `process` is the id of the recorded process."""
    global _listener
    listener, _listener = _listener, None
    if listener is None or os.getpid() != process:
        return
    remove_listener(listener)
    recorder = listener.recorder
    peak_bytes = peak_resident_bytes()
    if recorder.held is not None:
        recorder.held.stop()
        recorder.held.look_and_record()
        if recorder.step == 0 and getattr(sys, "last_value", None) is None:
            # No call has looked for the variables.
            recorder.record_final_addresses()
    recorder.end()
    # Python keeps the exception that ended the script, if one did.
    error = getattr(sys, "last_value", None)
    if not isinstance(error, KeyboardInterrupt):
        # Imported late: it needs Keras, which may be partly imported when recording begins.
        from lowtide.tf.record.finish_recording import finish_recording

        finish_recording(recorder, error, resident_bytes=peak_bytes)


def _finish_after_crash(recorder: Recorder) -> None:
    from lowtide.tf.record.finish_recording import finish_recording

    peak_bytes = peak_resident_bytes()
    if recorder.held is not None:
        # A look asks for addresses, and that of a tensor whose allocation failed would end the process.
        recorder.held.stop(LOCK_SECONDS)
    recorder.end(LOCK_SECONDS)
    finish_recording(recorder, is_crashing=True, resident_bytes=peak_bytes)


@contextmanager
def recording_paused() -> Iterator[None]:
    """Pause the recording of the script: TensorFlow has one profiler, which `lt.measure` needs too."""
    if _listener is None:
        yield
        return
    with _listener.recorder.paused():
        yield
