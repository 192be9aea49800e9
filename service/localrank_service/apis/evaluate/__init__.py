"""``POST /v1/evaluate``: how well a model ranks judged queries, and how fast."""
