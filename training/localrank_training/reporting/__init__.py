"""What commands have found, as pages: a training run, an assessment, an evaluation, a tuning.

A page repeats figures and computes none that a command does not also answer as JSON, but for the background of a training
run (`localrank_training.reporting.background`), which takes time and is looked for only if a page is wanted.
"""

from __future__ import annotations
