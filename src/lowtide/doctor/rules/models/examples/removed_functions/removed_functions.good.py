import tensorflow as tf
import tensorflow_model_optimization as tfmot
import tf_keras as keras

# The models of tf_keras are those that the library knows.
model = keras.Sequential([keras.layers.Dense(1)])
pruned = tfmot.sparsity.keras.prune_low_magnitude(model)
tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session())
