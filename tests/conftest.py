"""One BLAS thread, as in serving: small matrices gain nothing from more, and test processes run side by side."""

import os

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
