"""Write golden files anew: ``python -m tests.golden``, or ``--only NAME`` for one scene (`tests.golden.scenes`)."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")  # as in tests/conftest.py, and before numpy comes

from tests.golden.frame import FILES, mismatches, record  # noqa: E402
from tests.golden.scenes import SCENES  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--only", choices=SCENES, action="append", help="a scene; may be repeated")
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    arguments = parser.parse_args()
    for name in arguments.only or SCENES:
        start = sum(os.times()[:4])
        with tempfile.TemporaryDirectory() as folder:
            if arguments.check:
                said = "\n".join(mismatches(SCENES[name], Path(folder))) or "the same"
            else:
                said = ", ".join(
                    f"{file} {count}" for file, count in record(SCENES[name], Path(folder)).items()
                )
        print(f"{name} ({sum(os.times()[:4]) - start:.1f} s of processor time): {said}")
    print(f"{sum(file.stat().st_size for file in FILES.glob('*.json')):,} bytes in {FILES}")


if __name__ == "__main__":
    main()
