"""Judged queries, as the tests of all learners have them."""

from tests.training.learners.conftest import judged, make_queries  # noqa: F401
