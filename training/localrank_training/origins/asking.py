"""Asking the library that wrote a model for its scores, in a process of its own.

The file may be hostile or damaged, and these libraries crash on such files. So a child process reads a private copy of
it, with limits of memory, time and size of files, in a folder that is removed afterwards; it returns numbers and nothing
else. The child runs this file alone (``python -P asking.py``), because the rest of the package takes long to import.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.disk import read_plain
from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Matrix, Vector
    from localrank_training.origins.model import OriginModel

#: Each format's library: its module, and what it is called.
LIBRARIES = {
    "lightgbm": ("lightgbm", "LightGBM"),
    "xgboost": ("xgboost", "XGBoost"),
    "catboost-json": ("catboost", "CatBoost"),
}
#: Seconds, and bytes of memory beside those for the file.
_SECONDS = 300
_MEMORY = 4 << 30
#: Bytes of memory for each byte of the file.
_EACH = 32
#: Bytes of what a child may write beside the scores.
_WORDS = 64 * 1024
_MODEL, _DOCUMENTS, _SCORES, _VERSION, _SAID = "model", "documents.npy", "scores", "version", "said"


def origin_scores(
    model: OriginModel, documents: Matrix, *, seconds: float = _SECONDS
) -> tuple[str, Vector] | None:
    """Ask the library that wrote the file for its raw scores; None if it is not installed.

    Args:
        model: with the content of its file.
        documents: whose scores are asked for.
        seconds: after which the library is given up.

    Raises:
        InvalidData: the library refuses the file, crashes on it, or takes too long or too much memory.
    """
    module, name = LIBRARIES.get(model.format, ("", ""))
    if not module or find_spec(module) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="localrank-") as text:
        folder = Path(text)
        (folder / _MODEL).write_bytes(model.content)
        np.save(folder / _DOCUMENTS, documents)
        command = [sys.executable, "-P", __file__, model.format, str(model.rounds or 0), str(folder)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            with (folder / _SAID).open("wb") as said:
                done = subprocess.run(  # noqa: S603 - this very module
                    command,
                    check=False,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=seconds,
                )
        except subprocess.TimeoutExpired:
            raise InvalidData(
                f"expected {name} to read this file within {seconds:g} seconds; it was given up"
            ) from None
        if done.returncode:
            raise InvalidData(_failure(name, done.returncode, folder / _SAID))
        with suppress(OSError, UnicodeDecodeError):
            scores = read_plain(folder / _SCORES, 8 * len(documents))
            version = read_plain(folder / _VERSION, 40).decode("ascii")
            if len(scores) == 8 * len(documents) and version.isprintable():
                return f"{name} {version}", np.frombuffer(scores, "<f8").astype(np.float64)
        raise InvalidData(f"expected {name} to give a score for each of {len(documents)} documents")


def _failure(name: str, code: int, said: Path) -> str:
    if code < 0:
        return f"expected a model that {name} can read, found that {name} crashed on it ({signal.Signals(-code).name})"
    lines = said.read_bytes().decode(errors="replace").splitlines() or [""]
    return f"expected a model that {name} can read, found: {' '.join(lines[-1].split()):.300}"


def _limit(file: int, documents: int) -> None:
    """Bound what this process may use from now on."""
    limits = {
        resource.RLIMIT_AS: _MEMORY + _EACH * file,
        resource.RLIMIT_CPU: _SECONDS,
        resource.RLIMIT_FSIZE: 8 * documents + _WORDS,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        # Some systems do not know a limit, or have a lower one.
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))


def scores_here(form: str, path: Path, documents: Matrix, rounds: int = 0) -> tuple[str, Vector]:
    """Return the version of the library and its raw scores, asked in this process: only for a file that is trusted.

    Args:
        form: of the file.
        path: of the file.
        documents: whose scores are asked for.
        rounds: of boosting that count; 0 for all.
    """
    ask = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost-json": _catboost}[form]
    return ask(path, documents, rounds)


def _lightgbm(path: Path, documents: Matrix, _: int) -> tuple[str, Vector]:
    import lightgbm

    booster = lightgbm.Booster(model_file=str(path))
    scores = np.asarray(
        booster.predict(documents.astype(np.float64), raw_score=True, num_threads=1), np.float64
    )
    if "\naverage_output\n" in booster.model_to_string():
        scores /= booster.num_trees()  # of a random forest it gives the sum, and elsewhere the mean
    return lightgbm.__version__, scores


def _xgboost(path: Path, documents: Matrix, rounds: int) -> tuple[str, Vector]:
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(path.read_bytes()))
    booster.feature_names = booster.feature_types = None  # renamed ones would be refused
    if json.loads(booster.save_config())["learner"]["gradient_booster"]["name"] == "gblinear":
        rounds = 0
    data = xgboost.DMatrix(documents, missing=np.nan, nthread=1)
    scores = booster.predict(data, output_margin=True, iteration_range=(0, rounds))
    return xgboost.__version__, np.asarray(scores, np.float64)


def _catboost(path: Path, documents: Matrix, _: int) -> tuple[str, Vector]:
    import catboost

    booster = catboost.CatBoost()
    booster.load_model(str(path), format="json")
    info = json.loads(path.read_text(encoding="utf-8"))["features_info"]
    if categorical := info.get("categorical_features"):
        # It takes categories as texts. No split asks for this one.
        asked, other = documents.astype(object), "\0"
        for feature in categorical:
            at, texts = feature["flat_feature_index"], [text for _, text in values_asked(feature, info)]
            codes = np.nan_to_num(documents[:, at], nan=len(texts)).astype(int)
            asked[:, at] = [texts[code] if code < len(texts) else other for code in codes]
        documents = catboost.Pool(asked, cat_features=[one["flat_feature_index"] for one in categorical])
    scores = booster.predict(documents, prediction_type="RawFormulaVal", thread_count=1)
    return catboost.__version__, np.asarray(scores, np.float64)


#: CatBoost's hashes of values have 32 bits; splits write them with a sign, the table of texts without one.
HASH = 0xFFFF_FFFF


def values_asked(feature: Mapping[str, Any], info: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return hash and text of each value of a category that a split of CatBoost asks for, in the order of the codes."""
    wanted = {value & HASH for value in feature.get("values", ())}
    listed = ((entry["hash"] & HASH, entry["value"]) for entry in info.get("cat_features_hash", ()))
    return [(code, text) for code, text in listed if code in wanted]


def _main(form: str, rounds: str, where: str) -> int:
    folder = Path(where)
    documents = np.load(folder / _DOCUMENTS, allow_pickle=False)
    _limit((folder / _MODEL).stat().st_size, len(documents))
    # Whatever a library writes is removed with the folder.
    os.chdir(folder)
    try:
        version, scores = scores_here(form, folder / _MODEL, documents, int(rounds))
        if scores.shape != (len(documents),):
            raise ValueError(f"scores of shape {scores.shape} for {len(documents)} documents")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said in one line
        said = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        # What the library has printed comes first.
        sys.stdout.flush()
        print(said, file=sys.stderr)  # noqa: T201
        return 1
    (folder / _VERSION).write_text(version)
    (folder / _SCORES).write_bytes(scores.astype("<f8").tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
