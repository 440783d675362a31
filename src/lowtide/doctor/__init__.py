"""Memory mistakes in code, found by reading it: nothing is executed, and TensorFlow is not imported.

`reading/` reads files and notebooks, `code/` says what the names and expressions in them are, `rules/` has one file for
each mistake, and `check` applies them. The room imports only `errors` and `units`.
"""
