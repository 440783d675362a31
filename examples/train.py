"""A small image classifier, trained on made-up images: something for `lowtide run` to look at.

lowtide run examples/train.py
lowtide run --limit 300MiB examples/train.py --batch-size 256
"""

import argparse

import keras
import numpy as np


def build() -> keras.Model:
    """Four convolutions, pooling, and two dense layers."""
    model = keras.Sequential(
        [
            keras.Input((64, 64, 3)),
            keras.layers.Conv2D(32, 3, activation="relu", name="conv_1"),
            keras.layers.Conv2D(32, 3, activation="relu", name="conv_2"),
            keras.layers.MaxPooling2D(name="pool"),
            keras.layers.Conv2D(64, 3, activation="relu", name="conv_3"),
            keras.layers.Conv2D(64, 3, activation="relu", name="conv_4"),
            keras.layers.MaxPooling2D(name="pool_2"),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu", name="features"),
            keras.layers.Dense(10, name="classes"),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


class Images(keras.utils.PyDataset):
    """Random images and labels, made batch by batch: a set that is never in memory as a whole."""

    def __init__(self, batch_size: int, batches: int) -> None:
        super().__init__()
        self.batch_size, self.batches = batch_size, batches

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(index)
        images = random.random((self.batch_size, 64, 64, 3), np.float32)
        return images, random.integers(0, 10, self.batch_size)


def main() -> None:
    """Train for one epoch of 15 batches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    build().fit(Images(parser.parse_args().batch_size, 15), verbose=2)


if __name__ == "__main__":
    main()
