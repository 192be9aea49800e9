"""What a model expects of documents, and what it makes of their features: contract, blocks, scaling, principal directions."""
