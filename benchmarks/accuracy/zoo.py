"""The configurations of the accuracy benchmark: model, training options and batch size.

Nothing here imports TensorFlow, so the list can be read, filtered and tested without it;
`benchmarks.accuracy.architectures` turns an entry into something that can be trained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "rmsprop", "adafactor", "lion")
_SHORT_PRECISION = {"float32": "", "mixed_bfloat16": "-bf16", "mixed_float16": "-f16"}


@dataclass(frozen=True)
class Configuration:
    """One row of the table: what is built and how it is trained."""

    architecture: str
    batch_size: int
    optimizer: str = "adam"
    precision: str = "float32"
    xla: bool = False
    # Arguments of the architecture's own builder, such as the image size.
    options: dict[str, Any] = field(default_factory=dict)
    # Arguments passed on to `compile` and to the optimizer.
    steps_per_execution: int = 1
    gradient_accumulation_steps: int | None = None

    @property
    def name(self) -> str:
        parts = [self.architecture]
        parts += [f"{key}{value}" for key, value in sorted(self.options.items())]
        parts += [f"b{self.batch_size}", self.optimizer]
        if self.gradient_accumulation_steps is not None:
            parts.append(f"accumulate{self.gradient_accumulation_steps}")
        if self.steps_per_execution != 1:
            parts.append(f"execute{self.steps_per_execution}")
        return "-".join(parts) + _SHORT_PRECISION[self.precision] + ("-xla" if self.xla else "")


def _entry(architecture: str, batch_size: int, optimizer: str = "adam", **rest: Any) -> Configuration:
    """Return a configuration; arguments that it does not know are options of the architecture."""
    known = {"precision", "xla", "steps_per_execution", "gradient_accumulation_steps"}
    options = {key: rest.pop(key) for key in list(rest) if key not in known}
    return Configuration(architecture, batch_size, optimizer, options=options, **rest)


BFLOAT16 = {"precision": "mixed_bfloat16"}
FLOAT16 = {"precision": "mixed_float16"}
XLA = {"xla": True}

CONFIGURATIONS: tuple[Configuration, ...] = (
    # Published image classifiers, as keras.applications builds them.
    _entry("resnet50", 8),
    _entry("resnet50", 2, "sgd"),
    _entry("resnet50", 16, "momentum", image=128),
    _entry("resnet50", 4, "adam", image=128, **XLA),
    _entry("mobilenetv2", 16),
    _entry("mobilenetv2", 32, "rmsprop", image=128),
    _entry("mobilenetv2", 8, "sgd", image=128, **XLA),
    _entry("densenet121", 8),
    _entry("densenet121", 16, "adamw", image=96),
    _entry("xception", 4),
    _entry("xception", 8, "momentum", image=128),
    _entry("efficientnetv2b0", 8),
    _entry("efficientnetv2b0", 16, "adafactor", image=96),
    _entry("mobilenetv3small", 32, "adam", image=128),
    _entry("mobilenetv3small", 8, "lion"),
    _entry("mobilenetv3large", 8, "adamw", image=160),
    _entry("vgg16", 4, "sgd"),
    _entry("vgg16", 8, "adam", image=96),
    _entry("inceptionv3", 4, "rmsprop"),
    _entry("convnexttiny", 4, "adamw", image=128),
    # Plain stacks.
    _entry("mlp", 256, "adam"),
    _entry("mlp", 32, "sgd"),
    _entry("mlp", 2048, "lion"),
    _entry("mlp", 256, "adafactor"),
    _entry("mlp", 512, "adam", **BFLOAT16),
    _entry("mlp", 256, "adam", **XLA),
    _entry("mlp", 128, "adam", gradient_accumulation_steps=4),
    _entry("mlp", 128, "momentum", steps_per_execution=4),
    _entry("conv_chain", 32, "adam"),
    _entry("conv_chain", 64, "sgd"),
    _entry("conv_chain", 16, "momentum", **XLA),
    _entry("conv_chain", 16, "rmsprop", **BFLOAT16),
    _entry("conv_chain", 4, "adam", **FLOAT16),
    _entry("conv_chain", 16, "adam", gradient_accumulation_steps=2),
    _entry("conv_chain", 16, "adam", steps_per_execution=3),
    # Attention.
    _entry("transformer_encoder", 8, "adam"),
    _entry("transformer_encoder", 32, "adafactor"),
    _entry("transformer_encoder", 8, "adamw", **BFLOAT16),
    _entry("transformer_encoder", 8, "adam", **XLA),
    _entry("gpt", 4, "adamw"),
    _entry("gpt", 8, "lion"),
    _entry("gpt", 4, "adam", **XLA),
    _entry("vit", 16, "adamw"),
    _entry("vit", 8, "adam", **BFLOAT16),
    _entry("mixer", 16, "adam"),
    # Recurrence.
    _entry("gru", 32, "adam"),
    _entry("gru", 128, "rmsprop"),
    _entry("lstm", 32, "adam"),
    _entry("lstm", 64, "sgd"),
    _entry("lstm_unrolled", 32, "adam"),
    _entry("lstm_unrolled", 32, "adam", **XLA),
    _entry("bidirectional_gru", 16, "adam"),
    _entry("while_lstm", 32, "adam"),
    _entry("while_lstm", 64, "momentum"),
    # Encoders and decoders.
    _entry("autoencoder", 16, "adam"),
    _entry("autoencoder", 64, "rmsprop"),
    _entry("vae", 64, "adam"),
    _entry("vae", 128, "adam", **XLA),
    _entry("unet", 4, "adam"),
    _entry("unet", 8, "momentum", **BFLOAT16),
    # Embeddings and sparse gradients.
    _entry("two_tower", 512, "adam"),
    _entry("two_tower", 4096, "sgd"),
    _entry("two_tower", 1024, "adafactor"),
    _entry("dlrm", 1024, "adam"),
    _entry("dlrm", 256, "momentum"),
    _entry("wide_and_deep", 512, "rmsprop"),
    _entry("text_cnn", 64, "adam"),
    _entry("text_cnn", 32, "adam", **XLA),
    # Several optimizers, shared layers, branches, other ranks.
    _entry("gan", 32, "adam"),
    _entry("gan", 128, "rmsprop"),
    _entry("gan", 32, "adam", **XLA),
    _entry("siamese", 16, "adam"),
    _entry("siamese", 64, "sgd"),
    _entry("conv3d", 4, "adam"),
    _entry("conv3d", 8, "momentum"),
    _entry("wavenet", 8, "adam"),
    _entry("wavenet", 32, "sgd"),
    _entry("cond", 64, "adam"),
    _entry("multitask", 16, "adam"),
)

# Programs that nothing was developed or tuned on, in a table of their own.
HELD_OUT: tuple[Configuration, ...] = (
    _entry("equal_convolutions", 32, "adam"),
    _entry("vgg19", 4, "adam", image=160),
    _entry("video_residual", 4, "adam"),
    _entry("convnextsmall", 4, "adamw", image=96),
    _entry("efficientnetb0", 8, "adam", image=160),
    _entry("resnet50v2", 8, "momentum", image=160),
    _entry("mobilenet", 16, "rmsprop", image=160),
    _entry("super_resolution", 16, "adam"),
    _entry("dilated_segmentation", 16, "adam"),
    _entry("denoising_unet", 32, "adamw"),
    _entry("decoder", 8, "adamw", **BFLOAT16),
    _entry("decoder", 4, "lion", gradient_accumulation_steps=4),
    _entry("tabular", 512, "adam"),
    _entry("squeeze_and_excite", 16, "sgd"),
    _entry("gradient_penalty", 64, "rmsprop"),
)

# Different programs that are measured in a few minutes.
QUICK = (
    "mobilenetv2-image128-b32-rmsprop",
    "mlp-b256-adam",
    "mlp-b256-adam-xla",
    "conv_chain-b32-adam",
    "transformer_encoder-b8-adam",
    "gru-b32-adam",
    "autoencoder-b16-adam",
    "two_tower-b512-adam",
    "gan-b32-adam",
)


def select(only: tuple[str, ...] = (), quick: bool = False, held_out: bool = False) -> list[Configuration]:
    """Return the configurations whose name contains any of `only`; all of them if it is empty."""
    chosen = [entry for entry in (HELD_OUT if held_out else CONFIGURATIONS) if not quick or entry.name in QUICK]
    if not only:
        return chosen
    return [entry for entry in chosen if any(pattern.lower() in entry.name for pattern in only)]


def find(name: str) -> Configuration:
    """Return the configuration of this name."""
    for entry in (*CONFIGURATIONS, *HELD_OUT):
        if entry.name == name:
            return entry
    raise KeyError(f"no configuration is called {name!r}; benchmarks/accuracy/zoo.py lists them")
