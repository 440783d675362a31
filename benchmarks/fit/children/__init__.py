"""The processes that are measured: each does one thing to one program and writes down what it saw."""
