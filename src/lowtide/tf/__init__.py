"""TensorFlow and Keras: trace, record, plan, microbatch, watch, references.

The room may import every room above it in the table of `CONTRIBUTING.md`. Only `feed`, `verbs` and `cli` import it, the
last one when a verb needs it.
"""

from importlib.util import find_spec

from lowtide.errors import MissingTensorFlowError

# Checked once, here, so that everything that needs TensorFlow raises the error that names the extra to install.
if find_spec("tensorflow") is None or find_spec("keras") is None:
    raise MissingTensorFlowError
