"""What every command owes to whoever runs it: one sentence, the right code, and nothing destroyed."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from localrank.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[3]
MODELS = ["--models-dir", str(ROOT / "models")]
LOCALRANK = [sys.executable, "-m", "localrank"]


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Judged queries with as many features as the demo model takes."""
    path = tmp_path / "judged.txt"
    options = ["--queries", "6", "--documents", "8", "--features", "10", "--seed", "3"]
    assert main(["data", "synthesize", *options, "--out", str(path)]) == 0
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_may_stand_before_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main([*command.split(), "--help"])
    asked_after = capsys.readouterr().out

    assert 0 == main(["help", *command.split()])
    assert asked_after == capsys.readouterr().out


def test_a_pipe_takes_the_scores_and_stays_a_pipe(judged: Path, tmp_path: Path) -> None:
    pipe, plain = tmp_path / "pipe", tmp_path / "plain"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert 0 == main(["rank", "demo", str(judged), *MODELS, "--out", str(pipe)])
        assert reader.stdout is not None
        read = reader.stdout.read()
    assert 0 == main(["rank", "demo", str(judged), *MODELS, "--out", str(plain)])

    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert plain.read_bytes() == read


def test_every_line_gets_its_own_score_though_queries_are_mixed(judged: Path, tmp_path: Path) -> None:
    lines = judged.read_text().splitlines(keepends=True)
    order = [*range(1, len(lines), 2), *range(0, len(lines), 2)]
    mixed = tmp_path / "mixed.txt"
    mixed.write_text("".join(lines[position] for position in order))
    scores = {}
    for data in (judged, mixed):
        out = data.with_suffix(".scores")
        assert 0 == main(["rank", "demo", str(data), *MODELS, "--out", str(out)])
        scores[data] = [float(line) for line in out.read_text().splitlines()]

    assert len(set(scores[judged])) > len(lines) // 2
    np.testing.assert_allclose([scores[judged][position] for position in order], scores[mixed], rtol=1e-6)


def test_scores_go_where_a_link_leads(judged: Path, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")

    assert 0 == main(["rank", "demo", str(judged), *MODELS, "--out", str(tmp_path / "link.txt")])

    assert (tmp_path / "link.txt").is_symlink()
    assert 6 * 8 == len((tmp_path / "real.txt").read_text().splitlines())


def test_data_are_not_converted_over_a_pipe(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert 1 == main(["data", "convert", str(judged), "--out", str(pipe), "--overwrite"])

    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert f"{pipe}: expected a file or a folder to replace" in said(capsys)


def test_data_are_not_read_from_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert 1 == main(["data", "inspect", str(pipe)])

    assert f"{pipe}: expected a file or a folder, which can be read twice" in said(capsys)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["data", "inspect", ""], 1, "expected the path of a file or folder, found nothing"),
        (["data", "convert", "x", "--out", ""], 2, "expected a path, found nothing"),
        (["data", "split", "x", "--out", "", "--folds", "3"], 2, "expected a path, found nothing"),
        (["data", "split", "x", "--out", "y", "--fractions", "nan,1"], 2, "add up to 1, found nan, 1.0"),
        (["data", "split", "x", "--out", "y"], 2, "expected either fractions or folds to split by"),
        (["rank", "demo", "x", "--out", ""], 2, "expected a path, found nothing"),
        (["train", "x", "--models-dir", ""], 2, "expected a path, found nothing"),
        (["train", "x", "--method", "no"], 2, "no method 'no' (expected: localrank, "),
        (["train", "x", "--config", "no.toml"], 2, "no.toml: cannot be read"),
        (["train", "x", "--name", "../x"], 1, "expected a model name"),
        (["train", "x", "--models-dir", __file__], 1, "cannot publish a version: Not a directory"),
    ],
)
def test_wrong_use_is_named_before_any_data_are_read(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == main(arguments)

    assert words in said(capsys)


def test_a_choice_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.toml").write_text('[learner]\nmethod = "ranksvm"\nC = []\n')

    assert 2 == main(["train", "x", "--config", str(tmp_path / "run.toml")])

    assert "run.toml [learner]: C: expected at least one value to choose from, found none" in said(capsys)


def test_no_models_are_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["models", "list", "--models-dir", str(tmp_path)])

    assert f"{tmp_path}: no published model" in said(capsys)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full on this system")
def test_a_full_disk_behind_standard_output_is_named(judged: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*LOCALRANK, "data", "inspect", judged],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (1, "localrank: the output cannot be written: No space left on device\n") == (
        ran.returncode,
        ran.stderr,
    )


def test_a_closed_standard_output_is_named() -> None:
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *LOCALRANK, "models", "list"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert (1, "localrank: standard output: expected to be open, found it closed\n") == (
        ran.returncode,
        ran.stderr,
    )


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error_to_speak_of(judged: Path) -> None:
    with subprocess.Popen(
        [*LOCALRANK, "data", "inspect", judged], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert b"" == process.stderr.read()


@pytest.mark.slow
def children_of(parent: int) -> list[int]:
    """Return the processes that this one has started, and those that these have."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of the command stands in parentheses and may hold anything.
            if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                child = int(status.parent.name)
                found += [child, *children_of(child)]
    return found


def alive(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")
def test_sigterm_ends_the_workers_too(tmp_path: Path) -> None:
    """Without a worker that is told to end, joblib's live on for five minutes."""
    assert 0 == main(["data", "synthesize", "--queries", "300", "--documents", "50", "--features", "30", "--out", str(tmp_path / "in.txt")])  # fmt: skip
    command = [*LOCALRANK, "train", "in.txt", "--workers", "2"]

    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        until = time.monotonic() + 60
        while run.poll() is None and len(children_of(run.pid)) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        children = children_of(run.pid)
        run.send_signal(signal.SIGTERM)
        code = run.wait(30)
    until = time.monotonic() + 20
    while any(map(alive, children)) and time.monotonic() < until:
        time.sleep(0.05)

    # Two workers, and the process that looks after their shared memory.
    assert len(children) >= 3
    assert (143, []) == (code, [child for child in children if alive(child)])
    assert not list(tmp_path.glob("models/*/*"))


def test_an_interrupt_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    models = tmp_path / "models"
    program = (
        "import os, signal, sys; from localrank.__main__ import main; "
        "import localrank_training.run.train as s; "
        "s.train = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT); "
        "sys.exit(main(sys.argv[1:]))"
    )
    data = tmp_path / "data.txt"
    data.write_text("1 qid:1 1:1\n0 qid:1 1:0\n")

    ran = subprocess.run(
        [sys.executable, "-c", program, "train", data, "--models-dir", models],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        # A shell's background jobs ignore the signal, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )

    assert (130, "localrank: interrupted\n") == (ran.returncode, ran.stderr)
    assert not models.exists()


@pytest.mark.slow
def test_a_label_that_does_not_suit_the_learner_is_named_with_file_and_line(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = judged.read_text().splitlines(keepends=True)
    lines[16] = "0.5 " + lines[16].split(" ", 1)[1]
    path, config = tmp_path / "real.txt", tmp_path / "run.toml"
    path.write_text("".join(lines))
    config.write_text('[clustering]\nmethod = "none"\n[learner]\nmethod = "lambdamart"\n')

    assert 1 == main(["train", str(path), "--config", str(config), "--models-dir", str(tmp_path)])

    assert f"lambdamart: {path}:17, query '3': expected whole numbers as labels, found 0.5" in said(capsys)


@pytest.mark.parametrize("columns", [3, 9])
def test_data_of_another_width_than_the_model_get_no_scores(
    judged: Path, tmp_path: Path, columns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "narrow.txt"
    path.write_text(
        "".join(" ".join(line.split()[: 2 + columns]) + "\n" for line in judged.read_text().splitlines())
    )

    for command in ("rank", "evaluate"):
        assert 1 == main([command, "demo", str(path), *MODELS])
        assert f"{path}: expected 10 features, found {columns} on every line" in said(capsys)


def test_a_table_is_trained_on_and_its_columns_are_said(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    rows = [line.split("#")[0].split() for line in judged.read_text().splitlines()]
    path.write_text(
        "grade,query,url,"
        + ",".join(f"x{j}" for j in range(10))
        + "\n"
        + "".join(
            f"{row[0]},{row[1][4:]},http://{i}," + ",".join(value.split(":")[1] for value in row[2:]) + "\n"
            for i, row in enumerate(rows)
        )
    )
    options = ["--label", "grade", "--qid", "query", "--models-dir", str(tmp_path)]

    assert 0 == main(["train", str(path), "--method", "global", "--name", "web", *options])

    assert "10 features ('x0', 'x1', 'x2', 'x3', 'x4', 'x5', …); left out: 'url' (text)" in said(capsys)
    assert 0 == main(["rank", "web@1", str(path), "--out", str(tmp_path / "scores"), *options])
    assert len(rows) == len((tmp_path / "scores").read_text().splitlines())


def test_extend_publishes_the_next_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["--models-dir", str(tmp_path / "models")]
    synthetic = ["--documents", "12", "--features", "6", "--kinds", "2"]
    for name, queries, seed in (("old", "40", "1"), ("new", "10", "1")):
        out = str(tmp_path / f"{name}.txt")
        assert 0 == main(
            ["data", "synthesize", "--queries", queries, *synthetic, "--seed", seed, "--out", out]
        )
    old, new = str(tmp_path / "old.txt"), str(tmp_path / "new.txt")
    assert 0 == main(["train", old, "--method", "localrank", "--name", "web", "--promote", *models])
    capsys.readouterr()

    assert 0 == main(["extend", "web", new, *models])

    said = capsys.readouterr().out
    assert "published web version 2" in said
    assert f"localrank models promote web 2 {' '.join(models)}" in said
    assert 1 == main(["extend", "web@1", old, *models])
    assert (
        "expected queries that are new to web@1, found those that it learned from" in capsys.readouterr().err
    )
    assert 1 == main(["extend", "web@2", new, *models])
    assert (
        "expected queries that are new to web@2, found those that it was extended by"
        in capsys.readouterr().err
    )
    assert 0 == main(["evaluate", "web@1", old, *models])
    expected = (
        "these are the queries that web@1 learned from; for figures of held-out queries see: "
        f"localrank models show web {' '.join(models)}\n"
    )
    assert expected in capsys.readouterr().err
    assert 0 == main(["evaluate", "web@1", new, *models])
    assert "these are" not in capsys.readouterr().err
    assert 0 == main(["models", "verify", "web@2", *models])
    capsys.readouterr()
    assert 0 == main(["extend", "web@2", new, "--again", "--json", "--promote", *models])
    answer = json.loads(capsys.readouterr().out)
    assert (3, 2, True, 10) == tuple(answer[name] for name in ("version", "from", "promoted", "queries"))
    assert 10 == sum(answer["joined"])
