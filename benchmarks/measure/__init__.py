"""What a recorded run tells, beside TensorFlow's own message and XProf's memory profile."""
