"""Where the program meets TensorFlow and Keras."""

from importlib.util import find_spec

from lowtide.errors import MissingTensorFlowError

# Asked here, once, so that whatever needs TensorFlow answers with the extra to install.
if find_spec("tensorflow") is None or find_spec("keras") is None:
    raise MissingTensorFlowError
