"""What a program's memory does over one step."""
