"""Names, numbers and aliases of published models, here and at a URL, and what changes between two versions."""
