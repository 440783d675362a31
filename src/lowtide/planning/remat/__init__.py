"""What to rematerialize so that a step keeps a budget at the least cost in time."""
