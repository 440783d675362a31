"""The folder that stands first in the child's PYTHONPATH: Python runs `sitecustomize` in it before the script."""
