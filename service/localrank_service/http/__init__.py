"""What surrounds every request: connections, heads, bodies, keys, origins, errors."""
