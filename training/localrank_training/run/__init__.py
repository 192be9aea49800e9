"""One training run, from judged queries to a ranker with its evidence; `train` is where to start reading."""
