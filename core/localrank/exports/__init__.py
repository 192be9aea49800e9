"""Models for search engines: what Elasticsearch LTR, OpenSearch LTR and Solr LTR upload, and what Vespa deploys.

Docs: docs/use/models-from-elsewhere.md.
"""

ENGINES = ("elasticsearch", "opensearch", "solr", "vespa")
