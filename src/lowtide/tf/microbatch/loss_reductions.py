"""How a model's loss hangs on the batch, seen in a trace of its forward pass that never runs."""

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
    Batch,
    Reduction,
    aggregate_plainly,
    call,
    compute_loss,
    replaced,
    stand_in,
    whole_divisors,
)
from lowtide.tf.microbatch.row_dependence import CONSTANT, MEAN, ROWS, SUM, find_kinds


class Stock:
    """What must be known of a model's batches before they are split, found once for each kind of batch."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._seen: dict[str, Batch] = {}

    def take(self, x: Any, y: Any, sample_weight: Any) -> Batch:
        data = (x, y, sample_weight)
        key = repr(keras.tree.map_structure(lambda leaf: None if leaf is None else _any_size(leaf), data))
        if key not in self._seen:
            self._seen[key] = Survey(self._model).of(*data).batch()
        batch = self._seen[key]
        if DIVIDED not in batch.reductions:
            return batch
        return replace(batch, divisors=whole_divisors(self._model, *data))


@dataclass
class Survey:
    """A trace of a model's loss for a batch of any size, and what is seen in it."""

    model: keras.Model
    mixing: list[Any] = field(default_factory=list)
    """The ops of the forward pass by which rows hang on each other."""
    writing: list[Any] = field(default_factory=list)
    """Those that change a variable, but for the states that random numbers are drawn from."""
    _reductions: list[Reduction] = field(default_factory=list)
    _losses: list[Loss] = field(default_factory=list)
    """Of each reduction."""
    _additions: list[Any] = field(default_factory=list)
    _total: Any = None
    _marks: dict[str, str] = field(default_factory=dict)
    """Kinds that are known, by the names of tensors."""
    _kinds: dict[str, str] = field(default_factory=dict)

    def of(self, *data: Any) -> Survey:
        """Trace with inputs, targets and sample weights like these: tensors or specs."""
        leaves = [leaf for leaf in keras.tree.flatten(data) if leaf is not None]
        forward: set[str] = set()

        def trace(*given: Any) -> Any:
            rest = iter(given)
            x, y, sample_weight = keras.tree.map_structure(lambda leaf: None if leaf is None else next(rest), data)
            prediction = call(self.model, x)
            self._mark(prediction, ROWS)
            forward.update(op.name for op in tf.compat.v1.get_default_graph().get_operations())
            with stand_in(self._reduce, self._aggregate), self._naming_losses():
                return compute_loss(self.model, x, y, prediction, sample_weight)

        concrete = tf.function(trace, autograph=False).get_concrete_function(*map(_any_size, leaves))
        graph = concrete.graph
        given = [tensor.name for tensor in graph.inputs[: len(graph.inputs) - len(concrete.captured_inputs)]]
        self._kinds, self.mixing = find_kinds(graph, given, self._marks, lambda op: op.name in forward)
        self._total = graph.outputs[0]
        writes = [op for op in graph.get_operations() if op.name in forward and op.type.startswith("Assign")]
        self.writing = [op for op in writes if op.inputs[1].dtype.is_floating]
        return self

    def batch(self) -> Batch:
        """What must be known of a batch before it is split; an error where it cannot be."""
        found = Batch()
        for asked, loss in zip(self._reductions, self._losses, strict=True):
            subject = f"the loss {loss.name}"
            if asked.kind is None:
                found.reductions.append(self._answer(asked.values, subject))
                continue
            if not _is_of_keras(loss) and self._kinds[asked.values.name] not in (ROWS, CONSTANT):
                raise _mixed(subject, asked.values)
            found.reductions.append(asked.kind)
        found.additions = [self._answer(loss, "a loss that a layer adds") for loss in self._additions]
        if type(self.model).compute_loss is not Trainer.compute_loss and self._total.shape.rank == 0:
            found.total = self._answer(self._total, "what compute_loss returns")
        found.divisors = [None] * len(found.reductions)
        return found

    def _answer(self, tensor: Any, subject: str) -> str:
        kind = self._kinds[tensor.name]
        if kind not in (CONSTANT, MEAN, SUM):
            raise _mixed(subject, tensor)
        return SUM if kind == SUM else MEAN

    def _mark(self, structure: Any, kind: str) -> None:
        for tensor in keras.tree.flatten(structure):
            if isinstance(tensor, tf.Tensor):
                self._marks[tensor.name] = kind

    def _reduce(self, asked: Reduction) -> Any:
        self._reductions.append(asked)
        loss = tf.identity(asked.plainly())
        # This is what pieces make of it, whatever it is.
        self._mark(loss, ROWS if asked.kind == ROWS else MEAN)
        return loss

    def _naming_losses(self) -> Any:
        """Each loss that is called meanwhile is written down; it reduces once."""
        plainly = Loss.__call__

        def called(loss: Loss, *arguments: Any, **named: Any) -> Any:
            before = len(self._reductions)
            value = plainly(loss, *arguments, **named)
            self._losses.extend([loss] * (len(self._reductions) - before))
            return value

        return replaced(Loss, "__call__", called)

    def _aggregate(self, loss: Any) -> Any:
        self._additions.append(loss)
        found = tf.identity(aggregate_plainly(self.model, loss))
        self._mark(found, MEAN)
        return found


def _mixed(subject: str, tensor: Any) -> LowtideError:
    return LowtideError(
        f"{subject} is no mean or sum over the rows of the batch, as far as the graph tells: pieces give another one",
        given=tensor.name.partition(":")[0],
        cure="let it give a value for each row, or reduce it with ops.mean or ops.sum",
    )


def _is_of_keras(loss: Loss) -> bool:
    """Whether it is known to give each row a value of its own, as all of Keras's losses do but one."""
    if isinstance(loss, keras.losses.Circle):
        return False
    function = getattr(loss, "fn", None)
    return all(part.__module__.startswith("keras.") for part in (type(loss), function or type(loss)))


def _any_size(leaf: Any) -> Any:
    """The spec of a batch like this, of any number of rows."""
    if isinstance(leaf, tf.TypeSpec):
        spec = leaf
    elif isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        spec = tf.type_spec_from_value(leaf)
    else:
        spec = tf.TensorSpec(leaf.shape, leaf.dtype)
    if isinstance(spec, tf.RaggedTensorSpec) or not len(spec.shape):
        return spec
    return type(spec)((None, *spec.shape[1:]), spec.dtype)
