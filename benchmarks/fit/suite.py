"""What is planned: eleven programs, each with a batch so large that its activations outweigh its weights.

Nothing here imports TensorFlow; `benchmarks.fit.programs` turns a case into something that can be trained.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A program, its batch, and where a person would place checkpoints by hand."""

    name: str
    batch_size: int
    ends: str
    """A pattern of the names of layers that end a block."""
    deterministic: bool = False
    """Whether its kernels give the same bits in every run: sums are taken in a fixed order."""


CASES = (
    Case("vgg19", 16, r"_pool$"),
    Case("resnet50", 16, r"_out$"),
    Case("unet", 8, r"^block\d+$"),
    Case("transformer24", 16, r"^block\d+$", deterministic=True),
    Case("conv_chain", 48, r"^layer\d*[37]$", deterministic=True),
    Case("mlp", 8192, r"^layer\d*[37]$", deterministic=True),
    Case("densenet121", 16, r"(_block\d+_concat|^pool\d_pool)$"),
    Case("mobilenetv2", 32, r"(_add|_project_BN)$"),
    Case("gan", 128, r"^block\d+$"),
    Case("lstm", 256, r"^block\d+$"),
    Case("vae", 96, r"^block\d+$"),
)

# A part that takes a few minutes.
QUICK = ("conv_chain", "mlp")

# Budgets are what is there before a step, and this share of what a plain step takes on top.
PROMISED_SHARES = (0.7, 0.5, 0.35)
# Activation memory down by 50% and by 70%.
COST_SHARES = (0.5, 0.3)
STEPS = 20

# How much larger a batch has to be in the bytes that the plain step needs.
LARGER_BATCHES = {"vgg19": 1.73, "unet": 2.5, "transformer24": 2.5}

# The ways to run a step: as it is, as planned (by recomputation alone, in its best order alone), and with what
# TensorFlow and Keras offer.
PLAIN, PLANNED, RECOMPUTED, ORDERED = "plain", "planned", "recomputed", "order"
BLOCKS, ROOT, REMAT, SCOPE = "blocks", "root", "remat", "scope"
TITLES = {
    PLAIN: "plain",
    PLANNED: "planned",
    RECOMPUTED: "planned, the batch whole",
    ORDERED: "ordered",
    BLOCKS: "`tf.recompute_grad` at block ends",
    ROOT: "`tf.recompute_grad`, square root",
    REMAT: "`keras.remat` at block ends",
    SCOPE: "`keras.RematScope`",
}


def find(name: str) -> Case:
    """The case of exactly this name."""
    for case in CASES:
        if case.name == name:
            return case
    raise KeyError(f"no case is called {name!r}; benchmarks/fit/suite.py lists them")


def select(only: list[str], quick: bool) -> list[Case]:
    """The cases whose name contains any of `only`; all of them when it is empty."""
    chosen = [case for case in CASES if not quick or case.name in QUICK]
    return [case for case in chosen if not only or any(part.lower() in case.name for part in only)]
