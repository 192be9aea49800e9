"""Queries as points, and how alike two points are. A representation makes the point of a query's documents."""
