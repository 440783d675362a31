"""What memory is for: the kinds that a tide tells apart."""

KINDS = ("weights", "optimizer", "gradients", "activations", "workspace", "input", "constants", "other")

# Not a kind of buffer: what the allocator gave beyond what was asked for.
SLACK = "slack"
