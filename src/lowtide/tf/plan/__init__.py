"""Plans for real steps: `lt.plan`, `lt.function` and `lt.fit_in`, and the functions they make."""
