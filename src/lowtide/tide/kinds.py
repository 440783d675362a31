"""What memory is used for: the kinds that a tide distinguishes."""

KINDS = ("weights", "optimizer", "gradients", "activations", "workspace", "input", "constants", "other", "outside")

# Memory that was allocated before a recorded step and stays, and belongs neither to its variables nor to its graph.
OUTSIDE = "outside"

# Not a kind of buffer: the bytes that the allocator gave beyond the bytes requested.
SLACK = "slack"

# The colour of each kind, the same in every picture of memory.
COLOURS = {
    "weights": "#2f6fd0",
    "optimizer": "#7c5cd6",
    "constants": "#5f7f8f",
    "input": "#3fa768",
    "activations": "#12a5b0",
    "gradients": "#f0794a",
    "workspace": "#e9b93f",
    "other": "#c25a93",
    OUTSIDE: "#6b5b4b",
    SLACK: "#8d99a6",
}
