"""Reports in the terminal and as Markdown. Knows `reports` and the axes; imports nothing else of `view`."""
