import tensorflow as tf
from keras import backend as K

# A program for TensorFlow 1.
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
K.set_session(tf.Session(config=config))
graph = tf.contrib.graph_editor.make_view(tf.get_default_graph())
