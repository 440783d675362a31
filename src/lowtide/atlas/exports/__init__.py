"""A cut in other forms: files that other programs read, and graphs of other libraries."""
