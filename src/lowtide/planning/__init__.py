"""How to lower the peak of a step: its order, what to rematerialize, and what that costs in time.

Imports `program`, `simulator` and `tide`. `order/` finds an order, `remat/` chooses what to compute again, `rewrite/`
states the change to the graph.
"""
