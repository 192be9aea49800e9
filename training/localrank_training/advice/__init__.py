"""What would help most: measured by taking some of the data away."""
