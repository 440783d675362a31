"""The index of a graph: columns in files, built from a GraphDef in one pass. Imports nothing else of the atlas."""
