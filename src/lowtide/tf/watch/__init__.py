"""`lt.Watch` and `lt.release`: what grows from step to step, and how to free it."""
