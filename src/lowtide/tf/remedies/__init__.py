"""Tries changes of a step that lower its memory: each is traced and simulated, or planned.

Imports `planning`, `tf/trace` and `tf/plan`.
"""
