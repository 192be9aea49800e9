"""From what users did with rankings to judged queries."""
