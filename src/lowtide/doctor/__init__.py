"""Memory mistakes in code, found by reading it: nothing is executed, and TensorFlow is not imported.

`source` reads files and notebooks, `scopes` and `values` say what the names in them refer to, `rules/` has one file for
each mistake, and `check` applies them. The room imports only `errors` and `units`.
"""
