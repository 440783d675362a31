"""Training loops that keep what each step made."""
