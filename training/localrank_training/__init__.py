"""The offline half of LocalRank: from judged queries to a published artifact."""
