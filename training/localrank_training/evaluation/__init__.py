"""What a ranker is worth: measured on judged queries, compared with another, in time and in stability."""
