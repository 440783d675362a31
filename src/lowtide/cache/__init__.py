"""The folder on disk for results that take long: what an entry is valid for, and how much room all of them may take."""
