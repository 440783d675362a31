"""How to lower the peak of a step: its order, what to rematerialize, and what that costs in time.

A step becomes a `PlanningProblem` (problem.py), whose schedules have a memory profile (memory_profile.py). `order/`
finds an order, `remat/` chooses what to rematerialize, `rewrite/` states the edits of the graph, and plan_search.py
combines them into the search for a `Plan`. Every tuned number is in tuning.py. Knows nothing of TensorFlow; imports
`program`, `simulator`, `tide` and what these import.
"""
