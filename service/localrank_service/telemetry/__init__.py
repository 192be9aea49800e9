"""What is counted and timed, and how Prometheus reads it."""
