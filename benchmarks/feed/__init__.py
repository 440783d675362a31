"""The memory and speed of datasets over data larger than memory, compared with common ways to feed it."""
