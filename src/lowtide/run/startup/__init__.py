"""The first folder of the child's PYTHONPATH: Python runs its `sitecustomize` before the script."""
