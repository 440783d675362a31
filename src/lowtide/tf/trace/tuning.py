"""The tuned numbers of the search for the largest batch and of progress estimates, with what each was set from.

The estimates are from processor seconds of ResNet50, EfficientNetB0, a transformer of six blocks and an MLP of eight
layers, on two cores.
"""

# Tracing takes 2.7 to 5.6 times as long as Keras takes to build the variables of the optimizer and the metrics, which
# calls the model once on symbolic tensors.
TRACE_PER_PREPARATION = 5.0
# Grappler, placement and partitioning take 0.64 to 0.99 of the time of tracing.
GRAPPLER_PER_TRACE = 0.85
# Shapes and simulation take 0.1 to 0.2 of it.
SIMULATION_PER_TRACE = 0.15
# How many batch sizes are tried until the largest is found.
TRIED_BATCHES = 6

# The largest batch is found to within this share. The bound of an MLP jumps up and down by a fifth between batches that
# differ by a tenth, because regions of the allocator double, so the exact batch would mean little.
BATCH_TOLERANCE = 1 / 64
