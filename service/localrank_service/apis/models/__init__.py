"""``/v1/models`` and below: what is served, how to ask it, and moving aliases."""
