"""An order of a step's nodes with a low peak: list scheduling, improved by minimum cuts."""
