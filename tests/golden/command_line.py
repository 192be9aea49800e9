"""What the command line does: exit codes, what is printed with ``--json``, sentences of mistakes, files left behind."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from tests.golden.command import run
from tests.golden.frame import DATA, LIBRARIES, MODELS
from tests.golden.training import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = (
    "", "train", "tune", "evaluate", "rank", "assess", "extend", "demo", "papers", "papers run", "papers list", "serve", "data inspect", "data convert", "data split", "data synthesize",
    "data export", "data join", "data collect", "experiments report", "models import", "models list", "models show", "models verify", "models sign", "models promote", "models rollback", "models prune",
    "models diff", "models export", "models push", "models pull",
)  # fmt: skip
#: A model of RankLib: one tree.
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
#: Each line is a case, run in this order in one folder that holds train.csv, test.csv and models/web.
LINES = """
data inspect train.csv --json
data convert train.csv --out train.txt
data convert train.csv --out train.parquet
data convert train.txt --out sparse.txt.gz --sparse
data convert train.csv --out train.txt
data inspect train.txt --json
data inspect train.parquet
data inspect train.txt train.parquet --json
data split train.csv --out parts --fractions 0.6,0.2,0.2 --json
data split train.csv --out folds --folds 3 --seed 2 --json
data synthesize --queries 4 --documents 3-5 --features 3 --missing 0.1 --out synthetic.txt --json
train train.csv --method localrank --print-config
train train.csv --learner linear --set 'learner.blocks="raw"' --name small --promote --report small.html --workers 1 --json
train train.csv --learner best_feature --name small --promote-if-better --workers 1 --json
train train.csv --name small --warm small --workers 1 --json
train train.csv test.csv --validation train.csv --learner linear --workers 1
evaluate web test.csv --json
evaluate web@1 test.csv --metrics map,ndcg@5,err@10 --top-grade 2 --convention letor4 --oracle --per-query each.csv --write-run web.run --write-qrels test.qrels --report web.html --json
evaluate web@1 web@2 test.csv --metrics map,ndcg@10 --margin 0.01 --json
evaluate web test.csv --metrics ndgc@10
evaluate web@7 test.csv
evaluate web train.txt
rank web test.csv
rank web test.csv --out scores.txt
rank web@2 nothing.csv
assess train.csv --workers 1 --budget 5 --report assessment.html --json
extend web test.csv --json
extend web test.csv
tune train.csv --learner linear --set learner.ridge=[0.1,1.0,10.0] --out tuned --workers 1 --json
models list --json
models show web@1 --json
models verify
models promote web 2
models promote web 9
models rollback web
models rollback web --alias nobody
models diff web@1 web@2 --json
models export small@1 --to solr --out solr.json
models export web@1 --to elasticsearch
models export small@1 --to opensearch --global-scorer --json
models import ranklib.txt --name imported --unverified --features bm25,pagerank,age,clicks,length --json
models import lightgbm.txt --name lightgbm --promote --json
models import train.csv --name wrong
models prune small --keep 1
models verify damaged
papers list --json
train nothing.csv
train bad-label.csv
train bad-number.txt
train train.csv --learner lambdamat
train train.csv --method locrank
train train.csv --set learner.C=0
train train.csv --set lerner.C=1
train train.csv --set clustering.method=kmean
train train.csv --set representation.method=relevant_mean
train train.csv --set similarity.form=eq6
train train.csv --set routing.method=oracle
train train.csv --set similarity.method=euclidean
train train.csv --config wrong.toml
train train.csv --colour red
train train.csv --label grade
train
trian
models
models shwo
data split train.csv --out more
data split train.csv --out more --fractions 60,60
data synthesize --queries 0 --documents 3 --features 3 --out x.txt
serve --port 99999
serve --models-dir none
serve --colour red
"""


def command_line(folder: Path) -> Iterator[tuple[str, str, Any]]:
    for file in ("train.csv", "test.csv"):
        shutil.copy(DATA / file, folder)
    shutil.copytree(MODELS, folder / "models")
    shutil.copytree(MODELS / "web", folder / "models" / "damaged")
    array = folder / "models" / "damaged" / "1" / "scorers.weights.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\1")
    (folder / "ranklib.txt").write_text(RANKLIB)
    (folder / "lightgbm.txt").write_text(lightgbm_model())
    (folder / "bad-label.csv").write_text("qid,label,a\nq1,high,1\n")
    (folder / "bad-number.txt").write_text("1 qid:1 1:2\n0 qid:1 1:x\n")
    (folder / "wrong.toml").write_text("[learner]\nmethod = 'linear'\nC = 3\n")
    for command in COMMANDS:
        done = run(folder, *command.split(), "--help")
        yield "command-options", command or "localrank", {"code": done.code, "options": options(done.out)}
    for number, line in enumerate(LINES.strip().splitlines()):
        before = contents(folder)
        done = run(folder, *shlex.split(line))
        answer: dict[str, Any] = {"code": done.code}
        if done.out:
            answer["out"] = rounded(done.json) if "--json" in line else shortened(steady(done.out))
        if done.err:
            answer["err"] = shortened(steady(done.err))
        after = contents(folder)
        if left := {name: text for name, text in after.items() if before.get(name) != text}:
            answer["files"] = left
        if gone := sorted(before.keys() - after.keys()):
            answer["files removed"] = gone
        yield "command-lines", f"{number:02} localrank {line}", answer
    for arguments in (["--version"], [], ["trian"], ["rank", "none", "none.csv"]):
        process = subprocess.run(
            [sys.executable, "-m", "localrank", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        answer = {
            "code": process.returncode,
            "out": len(process.stdout.splitlines()),
            "err": shortened(process.stderr),
        }
        yield "command-lines", f"in a process of its own: localrank {' '.join(arguments)}", answer


def lightgbm_model() -> str:
    """Return a small model of LightGBM as it saves it."""
    import lightgbm
    import numpy as np

    rows = np.random.default_rng(0).normal(size=(80, 3)).round(2)
    settings = {
        "objective": "regression",
        "num_leaves": 4,
        "min_data_in_leaf": 5,
        "verbose": -1,
        "num_threads": 1,
    }
    booster = lightgbm.train(
        settings, lightgbm.Dataset(rows, rows[:, 0] - rows[:, 1] ** 2), num_boost_round=3
    )
    return str(booster.model_to_string())


def options(text: str) -> list[str]:
    """Return the names of options, with defaults and limits, as ``--help`` lists them."""
    found: list[str] = []
    for line in text.splitlines():
        if match := re.match(r"\s{2}(?:-\w(?: \w+)?, )?(--[\w-]+)", line):
            found.append(match[1] + " " + line[match.end() :])
        elif found and line.startswith(" " * 8):
            found[-1] += " " + line.strip()
        elif found and line.strip():
            break
    return [" ".join([one.split()[0], *re.findall(r"\[[^\]]*\]", re.sub(r"\s+", " ", one))]) for one in found]


def contents(folder: Path) -> dict[str, str]:
    """Return the files of a folder: lines and digest of texts, only the names of others and within models."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or path.name == ".lock":
            continue
        if path.name == "aliases.json":
            found[name] = " ".join(re.findall(r'"version": (\d+)', path.read_text()))
        elif name.startswith("models/"):
            # A version counts as one.
            found["/".join(name.split("/")[:3])] = "a version"
        elif path.suffix in {".txt", ".csv", ".run", ".qrels", ".toml"}:
            text = path.read_text()
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            found[name] = (
                f"{text.count(chr(10))} lines, sha256:{digest}, the first: {text.partition(chr(10))[0][:80]}"
            )
        else:
            found[name] = "a file"
    return found


def steady(text: str) -> str:
    """Leave out how long something took, and how much memory there is."""
    return re.sub(r"\d+(\.\d+)? (s|MB|GB|ms|seconds|minutes)\b", r"… \2", text)


def shortened(text: str) -> list[str]:
    lines = text.splitlines()
    return lines if len(lines) <= 12 else [*lines[:10], f"… {len(lines) - 10} more lines"]


class Page(HTMLParser):
    """What a report says: its headings, links, tables, and how many pictures it has."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.pictures: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"meta", "link", "br", "img", "hr"}:
            return
        self._inside.append(tag)
        if tag == "a":
            self.links.append(dict(attrs).get("href") or "")
        elif tag == "tr":
            self.rows.append([])
        elif tag in {"th", "td"} and self.rows:
            self.rows[-1].append("")
        elif re.fullmatch("h[1-6]", tag):
            self.headings.append("")
        elif tag == "svg" and (said := dict(attrs).get("aria-label")) and said not in self.pictures:
            self.pictures.append(said)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "td" in self._inside or "th" in self._inside:
            self.rows[-1][-1] += data.strip()
        elif any(re.fullmatch("h[1-6]", tag) for tag in self._inside):
            self.headings[-1] += data


def reports(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """The pages that commands write with ``--report``."""
    for file in ("train.csv", "test.csv"):
        shutil.copy(DATA / file, folder)
    shutil.copytree(MODELS, folder / "models")
    for name, line in {
        "train": "train train.csv --method localrank --set learner.C=[1.0,10.0] --set learner.tolerance=0.01 --name reported --learning-curve --workers 1",
        "evaluate": "evaluate web@1 web@2 test.csv", "assess": "assess train.csv --workers 1 --budget 5",
    }.items():  # fmt: skip
        done = run(folder, *line.split(), "--report", f"{name}.html")
        page = Page()
        page.feed((folder / f"{name}.html").read_text() if done.code == 0 else done.err)
        tables = [
            [steady(cell) for cell in row]
            for row in page.rows
            if row[0].lower() not in {"python", "localrank", *LIBRARIES}
        ]
        yield (
            "command-reports",
            name,
            {
                "code": done.code,
                "headings": page.headings,
                "links": page.links,
                "rows": tables,
                "pictures": page.pictures,
            },
        )
