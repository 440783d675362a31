"""What the stages of datasets do, as far as reading the code tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.values import DATASET, FUNCTION, TRACED, Value

BATCHES = ("batch", "padded_batch", "ragged_batch")
UNBATCHES = ("unbatch", "flat_map", "interleave", "rebatch")
"""Methods after which an element is no batch any more."""
_FROM_DIRECTORY = (
    "keras.utils.image_dataset_from_directory", "keras.utils.audio_dataset_from_directory",
    "keras.preprocessing.image_dataset_from_directory",
)  # fmt: skip
_RECORDS = ("tensorflow.data.TFRecordDataset", "tensorflow.data.FixedLengthRecordDataset")
# Functions that make large elements: images, sounds, contents of files.
_DECODERS = (
    "tensorflow.io.read_file", "tensorflow.io.decode_image", "tensorflow.io.decode_jpeg", "tensorflow.io.decode_png",
    "tensorflow.io.decode_bmp", "tensorflow.io.decode_gif", "tensorflow.image.decode_image",
    "tensorflow.image.decode_jpeg", "tensorflow.image.decode_png", "tensorflow.image.decode_bmp",
    "tensorflow.image.decode_gif", "tensorflow.audio.decode_wav", "tensorflow.read_file", "tensorflow.image.resize",
)  # fmt: skip

_SAME_ELEMENTS = ("shuffle", "prefetch", "repeat", "take", "skip", "shard", "with_options")
_RESIZERS = ("tensorflow.image.resize", "tensorflow.image.resize_with_pad", "tensorflow.image.random_crop")


def method_of(stage: ast.Call) -> str:
    """Return the method or the function of a stage: "map", "from_tensor_slices", "TFRecordDataset"."""
    return stage.func.attr if isinstance(stage.func, ast.Attribute) else getattr(stage.func, "id", "")


def datasets(module: Module, *methods: str) -> Iterator[tuple[ast.Call, Value]]:
    """Yield the calls of methods of datasets with these names, and the datasets on which they are called."""
    for call, owner in module.method_calls(*methods):
        value = module.value(owner)
        if value is not None and value.kind == DATASET:
            yield call, value


def reads_files(module: Module, value: Value) -> bool:
    """Whether a dataset has the contents of files: of a folder, of records, or of files that a map reads."""
    source = module.name(value.stages[0].func) or "" if value.stages else ""
    if source in _FROM_DIRECTORY or source in _RECORDS:
        return True
    return source == "tensorflow_datasets.load" or any(decodes(module, stage) for stage in value.stages)


def decodes(module: Module, stage: ast.Call) -> bool:
    """Whether a stage is a map that decodes images or sounds, or reads files."""
    if method_of(stage) not in ("map", "interleave", "flat_map"):
        return False
    return any(module.name(each.func) in _DECODERS for each in calls_of_map(module, stage))


def batch_stage(value: Value) -> ast.Call | None:
    """Return the stage that made the elements of a dataset batches; None if they are no batches."""
    batch = None
    for stage in value.stages:
        method = method_of(stage)
        batch = stage if method in BATCHES else None if method in UNBATCHES else batch
    return batch


def is_cached(value: Value) -> bool:
    """Whether the elements of a dataset are those of a cache in memory: what holds them takes no further memory."""
    cached = False
    for stage in value.stages:
        method = method_of(stage)
        cached = (method == "cache" and not stage.args) or (cached and method in _SAME_ELEMENTS)
    return cached


def image_bytes(module: Module, value: Value) -> int | None:
    """Return the bytes of a decoded image, as float32, of a dataset of images; None if its size is not known."""
    source = value.stages[0]
    if (module.name(source.func) or "").endswith("image_dataset_from_directory"):
        size = module.argument(source, None, "image_size")
        known = (256, 256) if size is None else module.constant(size)
        channels = 1 if module.constant(module.argument(source, None, "color_mode")) == "grayscale" else 3
        return _pixels(known, channels)
    found = [
        each
        for stage in value.stages
        if decodes(module, stage)
        for call in calls_of_map(module, stage)
        if module.name(call.func) in _RESIZERS and (each := _size_given(module, call)) is not None
    ]
    return min(found, default=None)


def _size_given(module: Module, call: ast.Call) -> int | None:
    """Return the bytes of the images that a call of tf.image.resize or tf.image.random_crop makes."""
    size = module.argument(call, 1, "size")
    known = [module.constant(each) for each in size.elts] if isinstance(size, (ast.List, ast.Tuple)) else None
    constant = module.constant(size)
    parts = tuple(known) if known is not None else constant if isinstance(constant, tuple) else ()
    return _pixels(parts[:2], 3)


def _pixels(size: object, channels: int) -> int | None:
    if not isinstance(size, tuple) or len(size) != 2:
        return None
    height, width = size
    return height * width * channels * 4 if isinstance(height, int) and isinstance(width, int) else None


def autotune(module: Module) -> str | None:
    """Return tf.data.AUTOTUNE as the module writes it; None if it does not import TensorFlow by a name."""
    endings = {"tensorflow": ".data.AUTOTUNE", "tensorflow.data": ".AUTOTUNE", "tensorflow.data.AUTOTUNE": ""}
    for name, bindings in module.scopes.scope(module.tree).bindings.items():
        if len({each.qualified for each in bindings}) == 1 and bindings[0].qualified in endings:
            return name + endings[bindings[0].qualified]
    return None


def calls_of_map(module: Module, stage: ast.Call, depth: int = 0) -> Iterator[ast.Call]:
    """Yield the calls in the function that a stage is given, and in functions of the module that it calls."""
    function = module.argument(stage, 0, "map_func")
    if function is not None:
        yield from _calls_in(module, function, depth)


def _calls_in(module: Module, function: ast.expr, depth: int) -> Iterator[ast.Call]:
    body: ast.AST | None = function if isinstance(function, ast.Lambda) else None
    if body is None:
        value = module.value(function)
        body = value.origin if value is not None and value.kind in (FUNCTION, TRACED) else None
    if body is None or depth > 3:
        return
    for each in ast.walk(body):
        if isinstance(each, ast.Call):
            yield each
            if isinstance(each.func, ast.Name):
                yield from _calls_in(module, each.func, depth + 1)
