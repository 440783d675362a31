"""How lowtide reads and shows graphs of any size, and files that are not what they should be."""
