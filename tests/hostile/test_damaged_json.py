"""Compiled code reads whatever is sent: no byte beyond what it is given, and no operation that C leaves open."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from localrank.native.library import FOLDER
from localrank.native.texts import powers_of_five

HERE = Path(__file__).parent
SANITIZERS = "-fsanitize=address,undefined"


def texts() -> list[str]:
    random = np.random.default_rng(0)
    values = random.standard_normal((6, 5)) * 10.0 ** random.integers(-12, 12, (6, 5))
    rows = values.tolist()
    short = [[float(str(np.float32(value))) for value in row] for row in values]
    return [
        json.dumps({"features": rows}),
        json.dumps({"ids": ['a\\"', "b"], "features": short}, indent=1),
        json.dumps({"documents": [{"id": i, "features": row} for i, row in enumerate(short)]}),
        json.dumps({"features": [1, None, -0.0, 2**70, 1e300, 5e-324, -3]}),
        '{"features":[' + ",".join("1234567890" * 5 for _ in range(4)) + "]}",
        '{"features":[1]}',
        json.dumps(
            [{"a": "é\\u00e9\U0001f600", "b": [[], {}, [True, None]]}, "\\ud83d\\ude00", -1.5e-7],
            ensure_ascii=False,
        ),
    ]


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.soak)])
def test_damaged_texts_make_no_sanitizer_speak(tmp_path: Path, seconds: int) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "read_damaged"
    sources = [str(HERE / "read_damaged.c"), str(FOLDER / "json.c"), str(FOLDER / "scan.c")]
    command = ["cc", "-g", "-O1", "-std=gnu99", "-ffp-contract=off", "-Wno-psabi", f"-I{FOLDER}", SANITIZERS]
    built = subprocess.run(
        [*command, "-fno-sanitize-recover=all", "-o", str(program), *sources, "-lm"],
        check=False,
        capture_output=True,
        text=True,
    )
    if "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert 0 == built.returncode, built.stderr
    powers = tmp_path / "powers"
    powers.write_bytes(bytes(powers_of_five()))
    corpus = []
    for position, text in enumerate(texts()):
        corpus.append(tmp_path / f"{position}.json")
        corpus[-1].write_text(text)

    done = subprocess.run(
        [str(program), str(seconds), "1", str(powers), *map(str, corpus)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert 0 == done.returncode, done.stderr
    turns, lifted, whole = map(int, done.stdout.split())
    assert turns >= 1000
    assert 0.02 < lifted / turns < 0.9
    assert 0.02 < whole / turns < 0.9
