"""How to lower a step's memory: its order, what is computed again, and what that costs."""
