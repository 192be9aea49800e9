"""Models for the ranking plug-ins of search engines: what Elasticsearch LTR, OpenSearch LTR and Solr LTR upload.

`plain_form` decides whether a model can be one at all, `elasticsearch` and `solr` write it, and `engines.export` does both.
Docs: docs/use/models-from-elsewhere.md.
"""
