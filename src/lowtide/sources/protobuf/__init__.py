"""The wire format of protocol buffers, read and written without generated classes. Imports NumPy only."""
