"""What judged queries are like for quick models, what should be done about them, and what more queries are worth."""
