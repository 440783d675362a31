"""What code means, as far as reading it tells: names, values, sizes, pipelines, loops over steps."""
