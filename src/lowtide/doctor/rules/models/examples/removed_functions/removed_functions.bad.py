import keras
import tensorflow as tf
import tensorflow_model_optimization as tfmot
from tensorflow_model_optimization.sparsity.keras import prune_low_magnitude

model = keras.Sequential([keras.layers.Dense(1)])
pruned = tfmot.sparsity.keras.prune_low_magnitude(model)  # bad
also = prune_low_magnitude(model, block_size=(1, 1))  # bad
config = tf.compat.v1.ConfigProto()
config.gpu_options.allow_growth = True
tf.keras.backend.set_session(tf.compat.v1.Session(config=config))  # bad
graph = tf.contrib.graph_editor.make_view(tf.compat.v1.get_default_graph())  # bad
