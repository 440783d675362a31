"""A script in a process of its own: its launch, the folder of its recording, and the outcome.

Imports `simulator`, `tide`, `sources` and `oom`. It does not know TensorFlow: `launch` gets the name of the module that
records inside the script's process.
"""
