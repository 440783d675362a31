import keras
from tensorflow.keras import layers, optimizers

model = keras.Sequential(
    [keras.layers.Conv2D(8, 3), layers.BatchNormalization(), keras.layers.Flatten(), keras.layers.Dense(1)]
)
model.compile(keras.optimizers.Adam(1e-3, gradient_accumulation_steps=4), "mse")  # bad
other = optimizers.SGD(gradient_accumulation_steps=8)  # bad
