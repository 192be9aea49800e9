"""The models that answer: loading, replacing, promoting, and what the workers know of each other."""
