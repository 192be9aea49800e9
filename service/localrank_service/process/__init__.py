"""The processes: command, settings, workers, stopping, logs."""
