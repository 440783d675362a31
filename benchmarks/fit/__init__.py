"""Planned steps beside plain ones and their peers: does the promise hold, is the result the same, what does it cost."""
