"""Reads profiles (`.xplane.pb`) and the modules that XLA compiled. Imports `errors`, `program` and `protobuf/`."""
