"""Which version of a model answers, and comparisons with others beside it: splits, canaries, shadows, interleaving."""
