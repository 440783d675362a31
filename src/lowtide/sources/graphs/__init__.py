"""Graphs in event files, SavedModels, GraphDefs, Keras files and run metadata."""
