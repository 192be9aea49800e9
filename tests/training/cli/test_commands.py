"""Small runs of whole commands: each option changes what it says it changes; `tests.golden` has what is printed."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank.artifact import read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The options for a table whose columns have unusual names.
COLUMNS = "--label l --qid q --id i --weight w --position p --ignore a,b"
RANKLIB = """## LambdaMART
## No. of trees = 1
<ensemble>
 <tree id="1" weight="0.5">
  <split><feature> 1 </feature><threshold> 2.5 </threshold>
   <split pos="left"><output> -1.0 </output></split>
   <split pos="right"><output> 2.0 </output></split>
  </split>
 </tree>
</ensemble>
"""


class Folder:
    """A working folder with judged queries, where commands run."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys
        rows = [
            (
                row * 7 % 3,
                row // 6,
                f"d{row}",
                1 + row // 6 % 2,
                1 + row % 6,
                9,
                "x",
                (row * 7 % 3 + row % 2) / 3,
                row % 5,
            )
            for row in range(65 * 6)
        ]
        (path / "odd.csv").write_text(
            "l,q,i,w,p,a,b,signal,other\n" + "".join(",".join(map(str, row)) + "\n" for row in rows[:144])
        )
        lines = [f"{row[0]} qid:{row[1]} 1:{row[7]:.3f} 2:{row[8]}\n" for row in rows]
        for name, first, last in (("all", 0, 144), ("new", 144, 390)):
            (path / f"{name}.txt").write_text("".join(lines[first:last]))
        (path / "bad.txt").write_text("1 qid:1 1:x\n")
        (path / "ranklib.txt").write_text(RANKLIB)

    def __call__(self, line: str, code: int = 0) -> tuple[str, str]:
        """Run a command; return what it says on standard output and standard error."""
        found = main(shlex.split(line))
        said = self._capsys.readouterr()
        assert code == found, said.err
        return said.out, " ".join(said.err.split())

    def answer(self, line: str) -> Any:
        """Run a command with ``--json``."""
        return json.loads(self(f"{line} --json")[0])

    def source(self, version: str) -> Mapping[str, Any]:
        """Return where a version comes from."""
        return read_manifest(self.path / "models" / version).source


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path, capsys)


QUICK = "--learner best_feature --workers 1"


def test_one_set_of_options_says_how_every_command_reads_a_table(run: Folder) -> None:
    run(f"train odd.csv {COLUMNS} {QUICK} --name web")

    found = run.answer(f"data inspect odd.csv {COLUMNS}")
    assert ["signal", "other"] == [feature["name"] for feature in found["features"]]
    assert found["weights"]["max"] == 2
    assert found["positions"]["max"] == 6
    for command, code in (
        (f"train odd.csv --validation odd.csv {QUICK}", 0),
        ("tune odd.csv --learner best_feature --workers 1 --out tuned", 0),
        ("evaluate web odd.csv", 0),
        ("rank web odd.csv", 0),
        # It is read, but a global model cannot be extended.
        ("extend web odd.csv --again", 2),
        ("models import ranklib.txt --name lib --features signal,other --unverified --data odd.csv", 0),
        ("data convert odd.csv --out out.parquet --overwrite", 0),
        ("data split odd.csv --out parts --folds 3 --to parquet", 0),
    ):
        assert "localrank: odd.csv: " in run(f"{command} --label grade", code=1)[1]
        assert (
            "query 'q', document id 'i', query weight 'w', position 'p', 2 features"
            in run(f"{command} {COLUMNS}", code)[1]
        )


def test_commands_count_the_values_that_training_did_not_know(run: Folder) -> None:
    table = (run.path / "odd.csv").read_text()
    (run.path / "new.csv").write_text(table.replace(",x,", ",y,"))
    columns = "--label l --qid q --id i --ignore a,w,p"
    run(f"train odd.csv {columns} --method localrank --set clustering.clusters=2 --name web --workers 1")

    for command in ("rank web new.csv", "evaluate web new.csv", "extend web new.csv --again"):
        note = "values that training did not know, each counts as one more value: 144 of 'b'"
        assert 1 == run(f"{command} {columns}")[1].count(note)
    assert "did not know" not in run(f"rank web@1 odd.csv {columns}")[1]


def test_a_split_of_categories_is_parquet_by_default(run: Folder) -> None:
    columns = "--label l --qid q --id i --ignore a,w,p"
    answer, said = run(f"data split odd.csv --out parts --folds 3 --json {columns}")

    assert {".parquet"} == {name[name.index(".") :] for name in json.loads(answer)}
    assert "parts: the files are Parquet, because LETOR text does not keep categories" in said
    _, error = run(f"data split odd.csv --out others --folds 3 --to text {columns}", code=1)
    assert (
        "localrank: others: expected a format that keeps categories (--to parquet or arrow), or --ignore b, found"
        in error
    )


def test_text_that_leaves_zeros_out_is_read_as_sparse(run: Folder) -> None:
    (run.path / "few.txt").write_text((run.path / "all.txt").read_text() + "1 qid:99 2:5\n")

    assert "if an absent feature is a zero here, add --sparse" in run("data inspect few.txt", code=1)[1]
    assert "" == run("data inspect few.txt --sparse")[1]
    for options in ("--sparse", "--dense"):
        run(f"data convert all.txt --out out.txt --overwrite {options}")
        assert (" 1:0 " in (run.path / "out.txt").read_text()) == (options == "--dense")


def test_bad_files_are_left_out_if_asked(run: Folder) -> None:
    for command in (f"train all.txt bad.txt {QUICK}", "data convert all.txt bad.txt --out all.parquet"):
        assert "bad.txt:1" in run(command, code=1)[1]
        assert "bad.txt:1" in "".join(run(f"{command} --skip-bad-files"))


def test_what_comes_next_names_the_folder_of_the_models(run: Folder) -> None:
    train = f"train all.txt {QUICK} --name web --models-dir 'my models'"

    assert "to serve it: localrank models promote web 1 --models-dir 'my models'\n" in run(train)[0]
    assert (
        "it is the champion now; serve it: localrank serve --models-dir 'my models'\n"
        in run(f"{train} --promote")[0]
    )
    assert {"champion": 2} == run.answer("models show web --models-dir 'my models'")["aliases"]


def test_figures_too_good_to_be_true_are_looked_at_whether_promoted_or_not(run: Folder) -> None:
    lines = [f"{row % 3} qid:{row // 6} 1:{row % 3} 2:{row % 5}\n" for row in range(360)]
    (run.path / "leak.txt").write_text("".join(lines))

    for options, after in ("", ""), ("--promote --allow-suspicious", "; it is the champion now"):
        said, _ = run(f"train leak.txt {QUICK} {options}")
        assert f"look at that before you serve it{after}" == said.splitlines()[-1]


def test_tuning_is_kept_goes_on_and_can_be_trained_with(run: Folder) -> None:
    tune = "tune all.txt --learner linear --set learner.ridge=[0.1,1.0,10.0] --workers 1 --out tuned"

    first = run.answer(f"{tune} --most 2")
    assert 2 == len(first["settings"])
    said, _ = run(tune)

    kept = [json.loads(line) for line in (run.path / "tuned" / "trials.jsonl").read_text().splitlines()]
    # Three values in five folds; those of the first run were not tried again.
    assert 15 == len(kept) == len({(trial["key"], trial["fold"]) for trial in kept})
    assert {"best.toml", "report.html", "effects.png"} <= {
        path.name for path in (run.path / "tuned").iterdir()
    }
    command = said.splitlines()[-1].removeprefix("train with it: localrank ")
    assert "train all.txt --config tuned/best.toml" == command
    run(f"{command} --workers 1")
    assert "linear" == run.source("model/1")["configuration"]["learner"]["method"]


def test_tuning_refuses_a_file_as_its_folder_before_the_work(run: Folder) -> None:
    _, error = run("tune nothing.txt --out all.txt", code=1)

    assert error.startswith("localrank: all.txt/best.toml: cannot be written: ")
    assert "nothing.txt" not in error


def test_a_model_grows_and_is_compared_with_a_retrained_one(run: Folder) -> None:
    run(
        "train all.txt --method localrank --set learner.C=1 --set clustering.clusters=2 --name web --workers 1"
    )

    answer = run.answer("extend web new.txt --learned-from all.txt --promote --workers 1")
    said, _ = run("extend web@1 new.txt")

    assert (2, 1, True, 41) == tuple(answer[name] for name in ("version", "from", "promoted", "queries"))
    assert 41 == sum(answer["joined"])
    assert answer["retrained"]["queries"] > 0
    assert "to serve it: localrank models promote web 3\n" in said
    assert ["cluster", "queries", "before", "joined"] == said.splitlines()[1].split()
    assert "expected queries that are new to web@1" in run("extend web@1 all.txt", code=1)[1]


def test_a_model_is_imported_with_names_and_scores_of_its_library(run: Folder) -> None:
    (run.path / "names.txt").write_text("a \n\n b c\n")
    (run.path / "data.csv").write_text("qid,label,a,b c\n1,1,3,0\n1,0,2,0\n")
    (run.path / "scores.txt").write_text("1.0\n-0.5\n")
    (run.path / "wrong.txt").write_text("1.0\n0.5\n")
    (run.path / "names").write_bytes(b"\xff\xfe\x00")
    command = "models import ranklib.txt --name lib"

    answer = run.answer(f"{command} --features names.txt --data data.csv --expected scores.txt --promote")

    assert ("lib", 1, "ranklib", 2, True) == tuple(
        answer[name] for name in ("model", "version", "format", "features", "promoted")
    )
    assert ("a", "b c") == read_manifest(run.path / "models" / "lib" / "1").contract.names
    for options, code, said in (
        ("--features names.txt --data data.csv --expected wrong.txt", 1, "wrong.txt"),
        (
            "--features names --unverified",
            1,
            "names: expected names of features, found bytes that are not text",
        ),
        (
            "--format ranklub",
            2,
            "--format: expected one of lightgbm, xgboost, ranklib, catboost-json, found 'ranklub'",
        ),
    ):
        assert said in run(f"{command} {options}", code=code)[1]


def test_an_assessment_says_what_would_help_and_draws_it(run: Folder) -> None:
    said, _ = run("assess all.txt --workers 1 --report page.html")

    assert "24 of 24 queries, 144 documents" == said.splitlines()[0]
    assert "report: page.html" == said.splitlines()[-1]
    assert "localrank assess all.txt --workers 1" in (run.path / "page.html").read_text()
    assert 24 == run.answer("assess all.txt --workers 1")["queries"]


def test_workers_are_processes_or_a_cluster(run: Folder) -> None:
    for command in ("train", "tune"):
        _, error = run(f"{command} all.txt --workers 2 --dask local", code=2)
        assert "--workers and --dask: expected one of them, found both" in error
