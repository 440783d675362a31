"""Twenty programs: keras_hub's families with random weights, functional and subclassed models, hand-written loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCHES = 4
Arrays = tuple[Any, Any]


@dataclass(frozen=True)
class Script:
    """A compiled model that `fit` trains, or a `step` of a hand-written loop, with its data as arrays."""

    data: Arrays
    batch_size: int
    model: keras.Model | None = None
    step: Callable[..., Any] | None = None


def _tokens(batch_size: int, length: int, vocabulary: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1, vocabulary, (batch_size * BATCHES, length)).astype("int32")


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random((shape[0] * BATCHES, *shape[1:]), dtype=np.float32)


def _classes(batch_size: int, count: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, count, batch_size * BATCHES).astype("int32")


_SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _padded(tokens: np.ndarray) -> dict[str, np.ndarray]:
    return {"token_ids": tokens, "padding_mask": np.ones_like(tokens)}


# --- keras_hub --------------------------------------------------------------------------------------------------------


def _causal_lm(backbone: Any, task: Any, batch_size: int, length: int, optimizer: Any) -> Script:
    tokens = _tokens(batch_size, length + 1, 4000)
    model = task(backbone, preprocessor=None)
    model.compile(optimizer, _SPARSE)
    return Script((_padded(tokens[:, :-1]), tokens[:, 1:]), batch_size, model)


def _encoder(backbone: Any, batch_size: int, length: int, optimizer: Any, segments: bool = False) -> Script:
    tokens = _tokens(batch_size, length, 4000)
    inputs = _padded(tokens) | ({"segment_ids": np.zeros_like(tokens)} if segments else {})
    encoded = backbone.output
    encoded = encoded["sequence_output"] if isinstance(encoded, dict) else encoded
    model = keras.Model(backbone.input, layers.Dense(3)(encoded[:, 0]))
    model.compile(optimizer, _SPARSE)
    return Script((inputs, _classes(batch_size, 3)), batch_size, model)


def _images(backbone: Any, batch_size: int, size: int, optimizer: Any) -> Script:
    pooled = backbone.output
    pooled = layers.GlobalAveragePooling2D()(pooled) if len(pooled.shape) == 4 else pooled[:, 0]
    model = keras.Model(backbone.input, layers.Dense(10)(pooled))
    model.compile(optimizer, _SPARSE)
    return Script((_floats(batch_size, size, size, 3), _classes(batch_size, 10)), batch_size, model)


_SMALL = {"vocabulary_size": 4000, "num_layers": 4, "num_heads": 4, "hidden_dim": 192, "intermediate_dim": 768}


def gpt2() -> Script:
    import keras_hub

    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=8000, num_layers=4, num_heads=4, hidden_dim=256, intermediate_dim=1024, max_sequence_length=128
    )
    tokens = _tokens(8, 129, 8000)
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    model.compile("adam", _SPARSE)
    return Script((_padded(tokens[:, :-1]), tokens[:, 1:]), 8, model)


def bert() -> Script:
    import keras_hub

    backbone = keras_hub.models.BertBackbone(**_SMALL, max_sequence_length=128)
    return _encoder(backbone, 16, 128, keras.optimizers.AdamW(1e-4), segments=True)


def t5_adafactor() -> Script:
    import keras_hub

    backbone = keras_hub.models.T5Backbone(
        vocabulary_size=4000, num_layers=3, num_heads=4, hidden_dim=128, intermediate_dim=512
    )
    tokens = _tokens(8, 96, 4000)
    inputs = {f"{side}_{name}": array for side in ("encoder", "decoder") for name, array in _padded(tokens).items()}
    logits = layers.Dense(4000)(backbone.output["decoder_sequence_output"])
    model = keras.Model(backbone.input, logits)
    model.compile("adafactor", _SPARSE)
    return Script((inputs, tokens), 8, model)


def albert() -> Script:
    import keras_hub

    backbone = keras_hub.models.AlbertBackbone(**_SMALL, embedding_dim=64, max_sequence_length=128)
    return _encoder(backbone, 16, 128, keras.optimizers.Lamb(1e-3), segments=True)


def roberta() -> Script:
    import keras_hub

    return _encoder(keras_hub.models.RobertaBackbone(**_SMALL, max_sequence_length=128), 16, 126, "adamw")


def deberta() -> Script:
    import keras_hub

    backbone = keras_hub.models.DebertaV3Backbone(**_SMALL | {"num_layers": 3}, max_sequence_length=96, bucket_size=32)
    return _encoder(backbone, 8, 96, "adam")


def opt() -> Script:
    import keras_hub

    backbone = keras_hub.models.OPTBackbone(**_SMALL, max_sequence_length=128)
    return _causal_lm(backbone, keras_hub.models.OPTCausalLM, 8, 128, "nadam")


def llama() -> Script:
    import keras_hub

    backbone = keras_hub.models.LlamaBackbone(
        vocabulary_size=4000, num_layers=4, num_query_heads=4, num_key_value_heads=2, hidden_dim=192,
        intermediate_dim=512,
    )  # fmt: skip
    return _causal_lm(backbone, keras_hub.models.LlamaCausalLM, 8, 128, "adamw")


def vit() -> Script:
    import keras_hub

    backbone = keras_hub.models.ViTBackbone(
        image_shape=(96, 96, 3), patch_size=8, num_layers=4, num_heads=4, hidden_dim=192, mlp_dim=768
    )
    return _images(backbone, 16, 96, "adamw")


def resnet18() -> Script:
    import keras_hub

    backbone = keras_hub.models.ResNetBackbone(
        input_conv_filters=[64], input_conv_kernel_sizes=[7], stackwise_num_filters=[64, 128, 256, 512],
        stackwise_num_blocks=[2, 2, 2, 2], stackwise_num_strides=[1, 2, 2, 2], block_type="basic_block",
        image_shape=(128, 128, 3),
    )  # fmt: skip
    return _images(backbone, 16, 128, keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True))


# --- Functional models ------------------------------------------------------------------------------------------------


def xception_like() -> Script:
    inputs = keras.Input((96, 96, 3))
    x = layers.Conv2D(32, 3, strides=2, padding="same")(inputs)
    for filters in (64, 128, 192):
        shortcut = layers.Conv2D(filters, 1, strides=2, padding="same")(x)
        for _ in range(2):
            x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(layers.Activation("swish")(x))
            x = layers.LayerNormalization()(x)
        x = layers.add([layers.MaxPooling2D(3, strides=2, padding="same")(x), shortcut])
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalMaxPooling2D()(x)))
    model.compile("adagrad", _SPARSE)
    return Script((_floats(32, 96, 96, 3), _classes(32, 10)), 32, model)


def wavenet() -> Script:
    x = inputs = keras.Input((2048, 1))
    x = layers.Conv1D(48, 2, padding="causal")(x)
    skips = []
    for level in range(8):
        gate = layers.Conv1D(48, 2, padding="causal", dilation_rate=2**level, activation="sigmoid")(x)
        value = layers.Conv1D(48, 2, padding="causal", dilation_rate=2**level, activation="tanh")(x)
        skips.append(layers.Conv1D(48, 1)(gate * value))
        x = layers.add([x, skips[-1]])
    model = keras.Model(inputs, layers.Conv1D(64, 1)(layers.Activation("relu")(layers.add(skips))))
    model.compile("rmsprop", _SPARSE)
    targets = np.random.default_rng(3).integers(0, 64, (8 * BATCHES, 2048)).astype("int32")
    return Script((_floats(8, 2048, 1), targets), 8, model)


def segmentation() -> Script:
    x = inputs = keras.Input((128, 128, 3))
    kept = []
    for filters in (16, 32, 64):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.BatchNormalization()(layers.Conv2D(filters, 3, strides=2, padding="same")(x))
    for filters, skip in zip((64, 32, 16), reversed(kept), strict=True):
        x = layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(x)
        x = layers.Dropout(0.1)(layers.concatenate([x, skip]))
    model = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid", dtype="float32")(x))
    model.compile("adamax", "binary_crossentropy")
    return Script((_floats(12, 128, 128, 3), np.round(_floats(12, 128, 128, 1))), 12, model)


def recommender() -> Script:
    users, items = keras.Input((), dtype="int32"), keras.Input((20,), dtype="int32")
    user = layers.Embedding(20_000, 32)(users)
    history = layers.Embedding(10_000, 32)(items)
    x = layers.concatenate([user, layers.GlobalAveragePooling1D()(history), layers.Flatten()(history)])
    for width in (1024, 512, 512, 256, 256):
        x = layers.Dropout(0.2)(layers.Dense(width, activation="relu")(x))
    model = keras.Model([users, items], layers.Dense(1)(x))
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    ids = (_classes(8192, 20_000), np.random.default_rng(4).integers(0, 10_000, (8192 * BATCHES, 20)).astype("int32"))
    return Script((ids, _classes(8192, 2).astype("float32")), 8192, model)


# --- Subclassed models ------------------------------------------------------------------------------------------------


class Contrastive(keras.Model):
    """SimCLR: two augmented views of each image, with the loss over all pairs of the batch."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            layer
            for filters in (32, 64, 128)
            for layer in (layers.Conv2D(filters, 3, padding="same", activation="relu"), layers.MaxPooling2D())
        ]
        self.encoder = keras.Sequential([*blocks, layers.GlobalAveragePooling2D(), layers.Dense(64)])
        self.augment = layers.RandomFlip()

    def train_step(self, images: Any) -> dict[str, Any]:
        """Train on one batch of images."""
        with tf.GradientTape() as tape:
            first, second = (
                tf.math.l2_normalize(self.encoder(self.augment(images, training=True), training=True), axis=1)
                for _ in range(2)
            )
            similarity = tf.matmul(first, second, transpose_b=True) / 0.1
            labels = tf.range(tf.shape(images)[0])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, similarity))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def contrastive() -> Script:
    model = Contrastive()
    model.compile("lion")
    return Script((_floats(32, 64, 64, 3), None), 32, model)


class GraphNetwork(keras.Model):
    """Message passing over one graph per example: gather along edges, sum at nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Dense(64, activation="relu")
        self.messages = [layers.Dense(64, activation="gelu") for _ in range(4)]
        self.norms = [layers.LayerNormalization() for _ in range(4)]
        self.head = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        nodes, edges = inputs
        x = self.first(nodes)
        for message, norm in zip(self.messages, self.norms, strict=True):
            sent = tf.gather(message(x), edges[..., 0], batch_dims=1)
            reached = tf.one_hot(edges[..., 1], 64)
            x = norm(x + tf.matmul(reached, sent, transpose_a=True))
        return self.head(tf.reduce_mean(x, axis=1))


def graph_network() -> Script:
    model = GraphNetwork()
    model.compile(keras.optimizers.Adam(clipnorm=1.0), "mse")
    edges = np.random.default_rng(5).integers(0, 64, (128 * BATCHES, 256, 2)).astype("int32")
    return Script(((_floats(128, 64, 16), edges), _floats(128, 1)), 128, model)


class Mixer(keras.Model):
    """An MLP-Mixer with mixed precision."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = layers.Conv2D(128, 8, strides=8)
        self.tokens = [keras.Sequential([layers.Dense(256, "gelu"), layers.Dense(64)]) for _ in range(6)]
        self.channels = [keras.Sequential([layers.Dense(512, "gelu"), layers.Dense(128)]) for _ in range(6)]
        self.norms = [layers.LayerNormalization() for _ in range(12)]
        self.head = layers.Dense(10, dtype="float32")

    def call(self, inputs: Any) -> Any:
        x = keras.ops.reshape(self.patches(inputs), (-1, 64, 128))
        for number, (tokens, channels) in enumerate(zip(self.tokens, self.channels, strict=True)):
            mixed = tokens(keras.ops.swapaxes(self.norms[2 * number](x), 1, 2))
            x = x + keras.ops.swapaxes(mixed, 1, 2)
            x = x + channels(self.norms[2 * number + 1](x))
        return self.head(keras.ops.mean(x, axis=1))


def mixer_bfloat16() -> Script:
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = Mixer()
    model.compile("adamw", _SPARSE)
    return Script((_floats(64, 64, 64, 3), _classes(64, 10)), 64, model)


# --- Hand-written loops -----------------------------------------------------------------------------------------------


def denoising_loop() -> Script:
    """A diffusion model: noise that the step draws, a schedule, clipped gradients, an average of the weights."""
    inputs, times = keras.Input((32, 32, 3)), keras.Input((1,))
    shift = layers.Reshape((1, 1, 64))(layers.Dense(64, activation="silu")(times))
    x = layers.Conv2D(64, 3, padding="same")(inputs)
    for _ in range(4):
        h = layers.Conv2D(64, 3, padding="same", activation="silu")(layers.GroupNormalization(8)(x))
        x = layers.add([x, layers.Conv2D(64, 3, padding="same")(h + shift)])
    model = keras.Model([inputs, times], layers.Conv2D(3, 3, padding="same")(x))
    optimizer = keras.optimizers.AdamW(1e-4, use_ema=True)
    optimizer.build(model.trainable_variables)

    def step(images: Any, _: Any) -> Any:
        noise = tf.random.normal(tf.shape(images))
        time = tf.random.uniform((tf.shape(images)[0], 1))
        share = tf.reshape(time, (-1, 1, 1, 1))
        with tf.GradientTape() as tape:
            predicted = model([tf.sqrt(1.0 - share) * images + tf.sqrt(share) * noise, time], training=True)
            loss = tf.reduce_mean(tf.square(predicted - noise))
        gradients, _norm = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return Script((_floats(48, 32, 32, 3), _classes(48, 2)), 48, step=step)


def translation_loop() -> Script:
    """An encoder and a decoder with attention between them, label smoothing, a warm-up schedule."""
    width, length = 128, 64

    def block(x: Any, other: Any | None = None) -> Any:
        attended = layers.MultiHeadAttention(4, 32)(x, x, use_causal_mask=other is not None)
        x = layers.LayerNormalization()(x + attended)
        if other is not None:
            x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 32)(x, other))
        hidden = layers.Dropout(0.1)(layers.Dense(4 * width, activation="relu")(x))
        return layers.LayerNormalization()(x + layers.Dense(width)(hidden))

    source, target = keras.Input((length,), dtype="int32"), keras.Input((length,), dtype="int32")
    x, y = layers.Embedding(4000, width)(source), layers.Embedding(4000, width)(target)
    for _ in range(3):
        x = block(x)
    for _ in range(3):
        y = block(y, x)
    model = keras.Model([source, target], layers.Dense(4000)(y))
    rate = keras.optimizers.schedules.CosineDecay(0.0, 100, warmup_target=1e-3, warmup_steps=10)
    optimizer = keras.optimizers.Adam(rate, beta_2=0.98)
    optimizer.build(model.trainable_variables)

    def step(tokens: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model([tokens, labels], training=True)
            smooth = tf.one_hot(labels, 4000) * 0.9 + 0.1 / 4000
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(smooth, logits))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return Script((_tokens(8, length, 4000), _tokens(8, length, 4000)), 8, step=step)


def descent_loop() -> Script:
    """Plain TensorFlow: variables in a list and the update written out."""
    widths = (256, 1024, 1024, 1024, 1024, 64)
    kernels = [tf.Variable(tf.random.normal(pair, stddev=0.03)) for pair in itertools.pairwise(widths)]
    velocities = [tf.Variable(tf.zeros_like(kernel)) for kernel in kernels]

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            for kernel in kernels[:-1]:
                x = tf.nn.gelu(tf.matmul(x, kernel))
            logits = tf.matmul(x, kernels[-1])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
            loss += 1e-4 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        for kernel, velocity, gradient in zip(kernels, velocities, tape.gradient(loss, kernels), strict=True):
            velocity.assign(0.9 * velocity + gradient)
            kernel.assign_sub(0.01 * velocity)
        return loss

    return Script((_floats(4096, 256), _classes(4096, 64)), 4096, step=step)


BUILDERS: dict[str, Callable[[], Script]] = {
    each.__name__: each
    for each in (
        gpt2, bert, t5_adafactor, albert, roberta, deberta, opt, llama, vit, resnet18, xception_like, wavenet,
        segmentation, recommender, contrastive, graph_network, mixer_bfloat16, denoising_loop, translation_loop,
        descent_loop,
    )
}  # fmt: skip
