"""The server behind `lowtide view` and the tab of TensorBoard."""
