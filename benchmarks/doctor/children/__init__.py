"""What runs in processes of its own."""
