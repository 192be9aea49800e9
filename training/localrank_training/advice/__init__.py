"""What should be done about judged queries, and what more of them are worth."""
