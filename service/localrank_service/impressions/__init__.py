"""What was shown and what became of it, logged to learn from."""
