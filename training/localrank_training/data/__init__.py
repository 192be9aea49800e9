"""Judged queries: what they are in memory, and how they are read, written, checked, split and synthesized."""
