"""``POST /v1/rerank``: the documents of one query, as JSON or as an array."""
