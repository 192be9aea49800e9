"""Commands that need the core alone."""
