"""Models for the ranking plug-ins of search engines: what Elasticsearch LTR, OpenSearch LTR and Solr LTR upload.

Docs: docs/use/models-from-elsewhere.md.
"""

ENGINES = ("elasticsearch", "opensearch", "solr")
