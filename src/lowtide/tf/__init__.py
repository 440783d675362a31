"""The rooms that use TensorFlow and Keras: trace, record, plan, microbatch, watch, references.

They may import every room below `tf`; only `feed`, `view` and `cli` import them, the last two when a verb needs them.
"""

from importlib.util import find_spec

from lowtide.errors import MissingTensorFlowError

# Checked once, here, so that everything that needs TensorFlow raises the error that names the extra to install.
if find_spec("tensorflow") is None or find_spec("keras") is None:
    raise MissingTensorFlowError
