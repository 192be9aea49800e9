"""Learners that only the papers need; plug-ins of training."""
