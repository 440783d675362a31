"""Steps and calls that XLA compiles: their memory is read from the compiled module's buffer assignment.

Imports `sources.profiles` (HLO modules), `simulator.bfc`, `tide`, and the naming modules of `tf.trace`.
"""
