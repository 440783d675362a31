"""Input pipelines that hold more than they need, or wait where they could prepare."""
