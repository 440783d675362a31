"""How a model's loss depends on the rows of the batch, found in a trace of its forward pass that never runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import keras
import tensorflow as tf
from keras.src.losses.loss import Loss
from keras.src.trainers.trainer import Trainer

from lowtide.errors import LowtideError
from lowtide.tf.microbatch.loss_scaling import (
    DIVIDED,
    LossScaling,
    Reduction,
    call_model,
    compute_divisors,
    compute_loss,
    keras_aggregate,
    replace_keras_losses,
    replaced,
)
from lowtide.tf.microbatch.row_dependence import CONSTANT, MEAN, ROWS, SUM, find_dependences


class LossScalingCache:
    """The loss scaling of a model, found once for each structure of batches."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._found: dict[str, LossScaling] = {}

    def find(self, x: Any, y: Any, sample_weight: Any) -> LossScaling:
        """Return the scaling for a batch, with the divisors of this batch where its losses need them."""
        data = (x, y, sample_weight)
        key = repr(keras.tree.map_structure(lambda leaf: None if leaf is None else _open_spec(leaf), data))
        if key not in self._found:
            self._found[key] = LossTrace(self._model).trace(*data).scaling()
        scaling = self._found[key]
        if DIVIDED not in scaling.reductions:
            return scaling
        return replace(scaling, divisors=compute_divisors(self._model, *data))


@dataclass
class LossTrace:
    """A trace of a model's loss for a batch of unknown size, and how the values in it depend on the rows."""

    model: keras.Model
    cross_row_ops: list[Any] = field(default_factory=list)
    """The ops of the forward pass that combine rows."""
    assign_ops: list[Any] = field(default_factory=list)
    """The ops of the forward pass that change a variable, except the states of random generators."""
    _reductions: list[Reduction] = field(default_factory=list)
    _losses: list[Loss] = field(default_factory=list)
    """The loss of each reduction."""
    _additions: list[Any] = field(default_factory=list)
    _total: Any = None
    _known: dict[str, str] = field(default_factory=dict)
    """Known row dependences, by the names of tensors."""
    _dependences: dict[str, str] = field(default_factory=dict)

    def trace(self, *data: Any) -> LossTrace:
        """Trace with inputs, targets and sample weights of these shapes: tensors or specs."""
        leaves = [leaf for leaf in keras.tree.flatten(data) if leaf is not None]
        forward: set[str] = set()

        def compute(*given: Any) -> Any:
            rest = iter(given)
            x, y, sample_weight = keras.tree.map_structure(lambda leaf: None if leaf is None else next(rest), data)
            prediction = call_model(self.model, x)
            self._set_known(prediction, ROWS)
            forward.update(op.name for op in tf.compat.v1.get_default_graph().get_operations())
            with replace_keras_losses(self._reduce, self._aggregate), self._collect_losses():
                return compute_loss(self.model, x, y, prediction, sample_weight)

        concrete = tf.function(compute, autograph=False).get_concrete_function(*map(_open_spec, leaves))
        graph = concrete.graph
        given = [tensor.name for tensor in graph.inputs[: len(graph.inputs) - len(concrete.captured_inputs)]]
        self._dependences, self.cross_row_ops = find_dependences(
            graph, given, self._known, lambda op: op.name in forward
        )
        self._total = graph.outputs[0]
        assigns = [op for op in graph.get_operations() if op.name in forward and op.type.startswith("Assign")]
        self.assign_ops = [op for op in assigns if op.inputs[1].dtype.is_floating]
        return self

    def scaling(self) -> LossScaling:
        """Return how the parts of the loss are scaled; raise an error if the batch cannot be split."""
        scaling = LossScaling()
        for reduction, loss in zip(self._reductions, self._losses, strict=True):
            subject = f"the loss {loss.name}"
            if reduction.kind is None:
                scaling.reductions.append(self._mean_or_sum(reduction.values, subject))
                continue
            if not _is_per_row(loss) and self._dependences[reduction.values.name] not in (ROWS, CONSTANT):
                raise _not_splittable(subject, reduction.values)
            scaling.reductions.append(reduction.kind)
        scaling.additions = [self._mean_or_sum(loss, "a loss that a layer adds") for loss in self._additions]
        if type(self.model).compute_loss is not Trainer.compute_loss and self._total.shape.rank == 0:
            scaling.total = self._mean_or_sum(self._total, "what compute_loss returns")
        scaling.divisors = [None] * len(scaling.reductions)
        return scaling

    def _mean_or_sum(self, tensor: Any, subject: str) -> str:
        dependence = self._dependences[tensor.name]
        if dependence not in (CONSTANT, MEAN, SUM):
            raise _not_splittable(subject, tensor)
        return SUM if dependence == SUM else MEAN

    def _set_known(self, structure: Any, dependence: str) -> None:
        for tensor in keras.tree.flatten(structure):
            if isinstance(tensor, tf.Tensor):
                self._known[tensor.name] = dependence

    def _reduce(self, reduction: Reduction) -> Any:
        self._reductions.append(reduction)
        loss = tf.identity(reduction.reduce())
        # Scaling turns every reduction of a micro-batch into a mean.
        self._set_known(loss, ROWS if reduction.kind == ROWS else MEAN)
        return loss

    def _collect_losses(self) -> Any:
        """Record each loss that is called inside the context; each reduces once."""
        keras_call = Loss.__call__

        def call_loss(loss: Loss, *arguments: Any, **named: Any) -> Any:
            before = len(self._reductions)
            value = keras_call(loss, *arguments, **named)
            self._losses.extend([loss] * (len(self._reductions) - before))
            return value

        return replaced(Loss, "__call__", call_loss)

    def _aggregate(self, loss: Any) -> Any:
        self._additions.append(loss)
        found = tf.identity(keras_aggregate(self.model, loss))
        self._set_known(found, MEAN)
        return found


def _not_splittable(subject: str, tensor: Any) -> LowtideError:
    return LowtideError(
        f"{subject} is no mean or sum over the rows of the batch, so micro-batches would give another loss",
        given=tensor.name.partition(":")[0],
        cure="return one value for each row, or reduce with ops.mean or ops.sum",
    )


def _is_per_row(loss: Loss) -> bool:
    """Whether the loss is known to compute each row's value from that row, as all of Keras's losses but one do."""
    if isinstance(loss, keras.losses.Circle):
        return False
    function = getattr(loss, "fn", None)
    return all(part.__module__.startswith("keras.") for part in (type(loss), function or type(loss)))


def _open_spec(leaf: Any) -> Any:
    """Return the spec of such a tensor with any number of rows."""
    if isinstance(leaf, tf.TypeSpec):
        spec = leaf
    elif isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        spec = tf.type_spec_from_value(leaf)
    else:
        spec = tf.TensorSpec(leaf.shape, leaf.dtype)
    if isinstance(spec, tf.RaggedTensorSpec) or not len(spec.shape):
        return spec
    return type(spec)((None, *spec.shape[1:]), spec.dtype)
