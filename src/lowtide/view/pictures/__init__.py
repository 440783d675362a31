"""Reports as SVG pictures. Knows `reports` and the axes; imports nothing else of `view`."""
