"""The layers of a Keras model and their inputs, from the JSON of Keras 3 and Keras 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Json = dict[str, Any]
Shape = tuple[int | None, ...]

# The deepest nesting of models that is read.
_DEEPEST = 30


class Reference(NamedTuple):
    """An output of a layer of the same model."""

    layer: str
    output: int
    shape: Shape | None = None


@dataclass
class Layer:
    """One layer with its inputs."""

    path: str
    class_name: str
    config: Json
    inputs: list[Reference]
    calls: int
    inside: Level | None = None
    """The layers of a model that is used as a layer."""
    fed: list[str] = field(default_factory=list)
    """Inputs of the enclosing model that this layer receives."""
    shapes: dict[int, Shape] = field(default_factory=dict)


@dataclass
class Level:
    """One model: its layers in order, its inputs and its outputs."""

    name: str
    scope: str
    layers: list[Layer]
    inputs: list[Reference]
    outputs: list[Reference]
    notes: list[str]
    by_name: dict[str, Layer] = field(default_factory=dict)

    def find(self, reference: Reference) -> tuple[Layer, int] | None:
        """Return the layer and output of a reference; for a nested model, the layer inside it."""
        level = self
        while (layer := level.by_name.get(reference.layer)) is not None and layer.inside is not None:
            level = layer.inside
            if not level.outputs:
                return None
            reference = level.outputs[min(reference.output, len(level.outputs) - 1)]
        return None if layer is None else (layer, reference.output)

    def tensor(self, reference: Reference) -> str:
        """Return the name of the tensor of a reference, even if its layer does not exist."""
        found = self.find(reference)
        if found is None:
            return f"{self.scope}{reference.layer}"
        layer, output = found
        return layer.path if output == 0 else f"{layer.path}:{output}"

    def feed(self, tensors: list[str]) -> None:
        """Pass the inputs of the model to its input layers."""
        input_layers = [layer for each in self.inputs if (layer := self.by_name.get(each.layer)) is not None]
        for position, tensor in enumerate(tensors if input_layers else ()):
            layer = input_layers[position % len(input_layers)]
            if layer.inside is not None:
                layer.inside.feed([tensor])
            else:
                layer.fed.append(tensor)


def read_model(model: Any) -> Level | None:
    """Return the layers of a model; None if the JSON has none."""
    if not isinstance(model, dict) or not _is_model(model):
        return None
    level = _read_level(model, "", 0)
    _set_shapes(level)
    return level


def _is_model(layer: Json) -> bool:
    config = layer.get("config")
    return isinstance(config, list) or (isinstance(config, dict) and isinstance(config.get("layers"), list))


def _read_level(model: Json, scope: str, depth: int) -> Level:
    config = model["config"]
    # The oldest form of Sequential is a plain list.
    described = config if isinstance(config, list) else config["layers"]
    settings: Json = config if isinstance(config, dict) else {}
    level = Level(_text(settings.get("name")), scope, [], [], [], [])
    is_chain = "output_layers" not in settings
    for position, each in enumerate(described):
        if isinstance(each, dict):
            name = _layer_name(each, position)
            layer = _read_layer(each, name, scope, depth, level.notes)
            if is_chain and level.layers:
                layer.inputs = [Reference(next(reversed(level.by_name)), 0, _built_shape(each))]
            level.layers.append(layer)
            level.by_name[name] = layer
    if is_chain and level.by_name:
        names = list(level.by_name)
        level.inputs, level.outputs = [Reference(names[0], 0)], [Reference(names[-1], 0)]
    else:
        level.inputs = list(_old_references(settings.get("input_layers")))
        level.outputs = list(_old_references(settings.get("output_layers")))
    return level


def _read_layer(described: Json, name: str, scope: str, depth: int, notes: list[str]) -> Layer:
    config = described.get("config")
    nodes = described.get("inbound_nodes")
    calls = nodes if isinstance(nodes, list) else []
    inputs = [reference for call in calls for reference in _references(call)]
    class_name = _text(described.get("class_name")) or "Layer"
    layer = Layer(scope + name, class_name, config if isinstance(config, dict) else {}, inputs, len(calls))
    if _is_model(described):
        if depth == _DEEPEST:
            notes.append(f"models are nested deeper than {_DEEPEST}; the layers of {layer.path} are left out")
        else:
            layer.inside = _read_level(described, f"{layer.path}/", depth + 1)
            notes += layer.inside.notes
    return layer


def _layer_name(described: Json, position: int) -> str:
    config = described.get("config")
    inner = config.get("name") if isinstance(config, dict) else None
    return _text(described.get("name")) or _text(inner) or f"layer_{position}"


def _references(call: Any) -> Iterator[Reference]:
    """Yield the tensors of one call: in Keras 3 among its arguments, in Keras 2 as lists that begin with a name."""
    if isinstance(call, list):
        yield from _old_references(call)
        return
    waiting = [call]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            config = value.get("config")
            if value.get("class_name") == "__keras_tensor__" and isinstance(config, dict):
                for reference in _old_references(config.get("keras_history")):
                    yield reference._replace(shape=_shape(config.get("shape")))
            else:
                waiting += reversed(value.values())


def _old_references(value: Any) -> Iterator[Reference]:
    """Yield the references in nested lists; each is a list of a name, a call and an output."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            if len(value) >= 3 and isinstance(value[0], str) and _is_index(value[1]) and _is_index(value[2]):
                yield Reference(value[0], value[2])
                waiting += reversed(value[3:])
            else:
                waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())


def _set_shapes(level: Level) -> None:
    """Set the known output shapes of each layer, from its consumers and its configuration."""
    for layer in level.layers:
        if (own := _shape(layer.config.get("batch_shape", layer.config.get("batch_input_shape")))) is not None:
            layer.shapes.setdefault(0, own)
        for reference in layer.inputs:
            if reference.shape is not None and (found := level.find(reference)) is not None:
                found[0].shapes.setdefault(found[1], reference.shape)
        if layer.inside is not None:
            _set_shapes(layer.inside)


def _built_shape(described: Json) -> Shape | None:
    built = described.get("build_config")
    return _shape(built.get("input_shape")) if isinstance(built, dict) else None


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, list) or not all(size is None or _is_index(size) for size in value):
        return None
    return tuple(value)


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
