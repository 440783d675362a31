"""The change to a graph that makes a schedule real: copies, rewired inputs and control edges."""
