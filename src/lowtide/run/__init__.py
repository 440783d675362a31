"""Running a script of the user's in a process of its own, and what is left when it has ended."""
