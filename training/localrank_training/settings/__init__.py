"""The settings of a training run: of each step, of a whole run, and the ready methods."""
