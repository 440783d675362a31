"""The index of a graph: columns in files, built from a GraphDef in one pass and found again later."""
