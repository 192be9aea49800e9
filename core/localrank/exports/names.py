"""What the engines are called."""

__all__ = ["ENGINES"]

ENGINES = ("elasticsearch", "opensearch", "solr")
