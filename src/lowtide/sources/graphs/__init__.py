"""Finds graphs in event files, SavedModels, GraphDefs, Keras files and run metadata.

Imports `errors`, `units`, `cache`, `program` and `sources/protobuf`; text GraphDefs also need TensorBoard's message
classes.
"""
