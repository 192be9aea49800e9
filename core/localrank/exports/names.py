"""What the engines are called."""

ENGINES = ("elasticsearch", "opensearch", "solr")
