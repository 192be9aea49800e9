"""Tables of features of items: published like models, looked up by the ids of documents."""
