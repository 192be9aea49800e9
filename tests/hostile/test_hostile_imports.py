"""Model files of other libraries, damaged or made to do harm: each is refused in one sentence, and nothing stays behind."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank_training.origins import read_model
from localrank_training.origins.asking import origin_scores

if TYPE_CHECKING:
    from collections.abc import Callable

#: What stands in for LightGBM in the child process: it may do whatever the real one can be made to do.
LIBRARY = """
import os, sys, time
__version__ = "9"
class Booster:
    def __init__(self, model_file):
        {harm}
    def predict(self, documents, **_):
        return documents[:, 0] * 0
    def model_to_string(self):
        return ""
"""

TREE = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=lambdarank
feature_names=a b
feature_infos=[0:1] [0:1]
tree_sizes=300

Tree=0
num_leaves=2
num_cat=0
split_feature=0
split_gain=1
threshold=0.5
decision_type=2
left_child=-1
right_child=-2
leaf_value=-0.25 0.25
leaf_weight=1 1
leaf_count=1 1
internal_value=0
internal_weight=2
internal_count=2
is_linear=0
shrinkage=1


end of trees

parameters:
end of parameters
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "model.txt"
    path.write_text(TREE)
    return path


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def made(harm: str) -> None:
        folder = tmp_path / "library"
        folder.mkdir()
        (folder / "lightgbm.py").write_text(LIBRARY.format(harm=harm))
        before = os.environ.get("PYTHONPATH")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), before))))
        monkeypatch.syspath_prepend(str(folder))
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    return made


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("os.abort()", "found that LightGBM crashed on it (SIGABRT)"),
        ("os.kill(os.getpid(), 11)", "found that LightGBM crashed on it (SIGSEGV)"),
        ("bytearray(1 << 40)", "expected a model that LightGBM can read, found: MemoryError"),
        ("raise ValueError('a\\nb')", "expected a model that LightGBM can read, found: a"),
        ("open('here', 'wb').write(bytes(1 << 20))", "found: [Errno 27] File too large"),
        ("Booster.predict = lambda *_, **__: [[1.0, 2.0]]", "found: scores of shape (1, 2) for "),
        ("os._exit(0)", "expected LightGBM to give a score for each of"),
        (
            "open('scores', 'wb').write(b'12345678'); os._exit(0)",
            "expected LightGBM to give a score for each",
        ),
        ("global __version__; __version__ = 'x' * 99", "expected LightGBM to give a score for each of"),
    ],
)
def test_a_library_that_comes_to_harm_is_one_sentence_and_leaves_nothing(
    tree: Path,
    library: Callable[[str], None],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    *,
    harm: str,
    said: str,
) -> None:
    library(harm)

    code = main(["models", "import", str(tree), "--name", "web", "--models-dir", str(tmp_path / "models")])

    out, errors = capfd.readouterr()
    assert (1, "", 1) == (code, out, errors.count("\n"))
    assert errors.startswith(f"localrank: {tree}: expected ")
    assert said in errors
    assert [] == list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / "models").exists()


def test_a_library_that_takes_for_ever_is_given_up(tree: Path, library: Callable[[str], None]) -> None:
    library("time.sleep(600)")

    with pytest.raises(InvalidData, match=r"^expected LightGBM to read this file within 0\.2 seconds"):
        origin_scores(read_model(tree), np.zeros((3, 2), np.float32), seconds=0.2)


def test_a_good_answer_is_taken_from_the_bytes_that_were_read(
    tree: Path, library: Callable[[str], None]
) -> None:
    library("assert open(model_file).read().startswith('tree')")
    model = read_model(tree)
    tree.write_text("something else")

    answer = origin_scores(model, np.zeros((3, 2), np.float32))

    assert answer is not None
    assert ("LightGBM 9", [0.0, 0.0, 0.0]) == (answer[0], answer[1].tolist())


def trees(**changed: str) -> str:
    """The LightGBM model with other fields."""
    lines = [line.partition("=") for line in TREE.split("\n")]
    return "\n".join(
        f"{name}={changed[name]}" if name in changed else f"{name}{equals}{value}"
        for name, equals, value in lines
    )


XGBOOST = (
    '{"learner":{"learner_model_param":{"num_feature":"%s","base_score":"0"},"objective":{"name":"rank:ndcg"},'
    '"attributes":{"best_iteration":"%s"},"gradient_booster":{"name":"gbtree","model":{"trees":[],'
    '"gbtree_model_param":{}}}}}'
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (trees(max_feature_idx="9" * 5000), "this model cannot be read: Exceeds the limit"),
        (
            trees(max_feature_idx="2147483646", feature_names=""),
            "expected at most 100000 features, found 2147483647",
        ),
        (trees(split_feature="9" * 30), "cannot be read"),
        (trees(num_leaves="9" * 30), "cannot be read"),
        (trees(leaf_value="1e999 1"), "a leaf is not finite"),
        (XGBOOST % ("9" * 12, 0), "expected at most 100000 features, found 999999999999"),
        (XGBOOST % (2, -3), "expected a best_iteration from 0, found -3"),
        ('{"learner": %s' % ("9" * 5000), "expected JSON, found: Exceeds the limit"),
        ('{"a":' * 100_000, "expected JSON, found: maximum recursion depth"),
        ("## AdaRank\n100000000:1", "expected a feature from 1 to 100000, found 100000000"),
        ("## LambdaMART\n<!DOCTYPE a>", "expected plain elements, found a declaration"),
    ],
)
def test_a_reader_has_bounds_of_its_own(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "model"
    path.write_text(content)

    with pytest.raises(InvalidData) as refusal:
        read_model(path)

    assert str(refusal.value).startswith(f"{path}: ")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [TREE, XGBOOST % (2, 0)], ids=["lightgbm", "xgboost"])
def test_damaged_files_are_read_or_refused(tmp_path: Path, content: str) -> None:
    random = np.random.default_rng(7)
    path = tmp_path / "model"
    whole = np.frombuffer(content.encode(), np.uint8)
    for _ in range(500):
        damaged: Any = whole.copy()
        for position in random.integers(0, len(whole), random.integers(1, 4)):
            damaged[position] = random.integers(0, 256) if random.random() < 0.5 else ord("9")
        path.write_bytes(damaged[: random.integers(1, len(whole) + 1)].tobytes())
        with suppress(InvalidData):
            assert read_model(path).n_features <= 100_000


# Pipes where files are expected.


@pytest.mark.parametrize(
    "arguments",
    [
        ["models", "import", "PIPE", "--name", "web"],
        ["models", "import", "TREE", "--name", "web", "--features", "PIPE"],
        ["models", "import", "TREE", "--name", "web", "--data", "DATA", "--expected", "PIPE"],
        ["models", "sign", "web", "--key", "PIPE"],
        ["models", "sign", "web", "--key", "TREE", "--password-file", "PIPE"],
        ["train", "--config", "PIPE", "--print-config"],
        ["serve", "--require-signature", "PIPE"],
        ["serve", "--admin-key-file", "PIPE"],
        ["serve", "--api-key-file", "PIPE"],
        ["serve", "--experiments-file", "PIPE"],
    ],
    ids=" ".join,
)
def test_a_pipe_is_no_file(
    tree: Path,
    tmp_path: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LOCALRANK_MODELS_DIR", str(Path(__file__).parents[2] / "models"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "data.txt").write_text("1 qid:1 1:0.1 2:0.2\n0 qid:1 1:0.7 2:0.2\n")
    places = {"PIPE": tmp_path / "pipe", "TREE": tree, "DATA": tmp_path / "data.txt"}

    code = main([str(places.get(one, one)) for one in arguments])

    errors = capfd.readouterr().err
    assert code in {1, 2}
    assert 1 == errors.count("\n"), errors
    assert str(tmp_path / "pipe") in errors
    assert "file, found a pipe" in errors
