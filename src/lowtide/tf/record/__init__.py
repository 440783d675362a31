"""Recording real steps: in a child process (`lt.measure`) or inside a user's script (`lowtide run`)."""
