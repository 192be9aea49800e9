"""How a scorer is learned from judged queries: one module per family, one role for all (`role.Learner`)."""
