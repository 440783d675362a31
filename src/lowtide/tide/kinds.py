"""What memory is used for: the kinds that a tide distinguishes."""

KINDS = ("weights", "optimizer", "gradients", "activations", "workspace", "input", "constants", "other")

# Not a kind of buffer: the bytes that the allocator gave beyond the bytes requested.
SLACK = "slack"
