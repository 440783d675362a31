"""Whole scripts under a hard limit: programs that the planner was not developed on, run as users write them."""
