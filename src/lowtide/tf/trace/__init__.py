"""From a function or a Keras model to the graph that TensorFlow runs, its shapes, and its predicted tide.

`step_cache` finds or traces a step, `trace` has TensorFlow build the executed graph, `resolve_shapes` works out its
shapes, and a `SimulatedStep`, or a `CompiledStep` in `xla`, predicts the tide. May import `program`,
`simulator`, `tide`, `sources` and `run`, and no other room of `tf`.
"""
