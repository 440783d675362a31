"""What the benchmarks share: child processes, a cache of measurements, and reports with bars in Markdown."""
