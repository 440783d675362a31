"""Reports drawn for people: in the terminal, as a picture, and as a page."""
