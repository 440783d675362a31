"""Steps with loops: recorded peaks of many processes beside the predicted usual and highest peak."""
