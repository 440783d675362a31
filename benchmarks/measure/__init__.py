"""What a recorded run shows, compared with TensorFlow's own message and XProf's memory profile."""
