"""Look for bytes that lead a target into code which no bytes before have led into; ends at the first wrong outcome.

    python -m tests.fuzzing.coverage CORPUS [TARGET ...] -- -runs=100000 -max_total_time=60 …

What stands after the two dashes is for libFuzzer. The first byte of each input chooses among the targets. Bytes that
led to something wrong are written to a file beside the corpus, and named.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["localrank", "localrank_service", "localrank_training"]):
    from tests.fuzzing.targets import TARGETS, check, examples


def main(arguments: list[str]) -> None:
    dashes = arguments.index("--")
    corpus, *names = arguments[:dashes]
    chosen = names or list(TARGETS)
    Path(corpus).mkdir(parents=True, exist_ok=True)
    for position, name in enumerate(chosen):
        for number, content in enumerate(examples(name)):
            Path(corpus, f"{position}-{number}").write_bytes(bytes([position]) + content)

    def one(data: bytes) -> None:
        if data:
            check(chosen[data[0] % len(chosen)], data[1:])

    atheris.Setup([sys.argv[0], *arguments[dashes + 1 :], corpus], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
