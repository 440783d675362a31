"""What the doctor found, for people and for other programs: each view is a function of finished data.

`terminal`, `diff` and `explanation` are for people, `json_report` for scripts, `sarif` and `github` for what shows
problems in the code of a repository.
"""
