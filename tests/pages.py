"""The code blocks of the pages: which test runs them, and why some cannot run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_PAGES = "tests/end_to_end/test_pages_run.py"
#: Pages whose blocks run, and the tests that run them.
RUN = {
    "README.md": (
        "tests/end_to_end/test_readme.py",
        "tests/end_to_end/test_http_examples.py",
        _PAGES,
    ),
    "docs/operate/capacity.md": ("tests/benchmarks/test_capacity.py",),
    "docs/use/configuration.md": (_PAGES,),
    "docs/use/data.md": (_PAGES,),
    "docs/use/growing.md": (_PAGES,),
    "docs/use/http.md": ("tests/end_to_end/test_http_examples.py",),
    "docs/use/models-from-elsewhere.md": (_PAGES,),
    "docs/use/online.md": (_PAGES,),
    "docs/operate/operations.md": ("tests/end_to_end/test_runbooks.py", _PAGES),
    "docs/use/search-engines.md": (_PAGES,),
    "docs/use/shop.md": (_PAGES,),
    "docs/use/tables.md": (_PAGES,),
    "docs/use/tutorial.md": ("tests/end_to_end/test_tutorial.py",),
    "training/README.md": (_PAGES,),
}

#: How commands and programs begin that no test types, and why.
NOT_RUN = {
    "make serve": "makes the environment that the tests run in; tests/architecture/test_release.py knows the target",
    "make test": "is what runs this",
    "pip install": "tests/end_to_end/test_wheel.py installs the wheel with each extra",
    "uvx --from": "tests/end_to_end/test_wheel.py runs it with a wheel that it builds",
    ".venv/bin/pip install": "is what `make test` has done",
    "docker ": "needs a container engine; tests/deploy/test_images.py runs the steps of the Dockerfile without one",
    "kubectl ": "needs a cluster; tests/deploy/test_kubernetes.py checks the manifests",
    "locust ": "tests/end_to_end/test_load.py runs the locust file",
    "dask ": "needs other machines; tests/training/parallel/test_dask_workers.py has real workers on this one",
    "localrank train data/train.txt --name web --dask tcp:": "as above",
    "localrank data convert data/train.txt --out /mnt": "needs a volume that machines share; tests/training/parallel/test_dask_mapped.py has one on this machine",
    "localrank train /mnt": "as above, and tests/training/parallel/test_dask_trees.py",
    "java ": "needs RankLib; tests/training/origins/test_origins.py evaluates its models by hand",
    "curl -X POST localhost:9200": "needs an Elasticsearch with its plug-in; tests/core/exports evaluate the body as it does",
    "curl -X PUT localhost:8983": "needs a Solr with its module; tests/core/exports evaluate the body as it does",
    "import mlflow": "needs an environment with MLflow; tests/end_to_end/test_mlflow_example.py makes one and does the same there",
    "localrank train judged.txt --learner rocchio": "needs the example to be installed; tests/training/test_plugins.py has it",
    "localrank train judged.txt --method rocchio": "as above",
    "def ndcg(": "shows how code looks here",
}


class Block(NamedTuple):
    """A code block: its page, its line there, its language and what it says."""

    page: str
    line: int
    kind: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page, without the indentation of a list that they stand in."""
    text = (ROOT / page).read_text()
    found = []
    for block in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        inner = re.sub(f"^{block[1]}", "", block[3], flags=re.MULTILINE) if block[1] else block[3]
        found.append(Block(page, text[: block.start()].count("\n") + 1, block[2], inner))
    return found


def commands(block: Block) -> list[str]:
    """Return the commands of a block of shell, each with all of its lines."""
    found: list[str] = []
    whole = True
    for line in block.text.splitlines():
        typed = line
        if whole:
            if not line.strip() or (block.kind == "console" and not line.startswith("$ ")):
                continue
            typed = line.removeprefix("$ ")
        else:
            typed = f"{found.pop()}\n{line}"
        found.append(typed)
        whole = _is_whole(typed)
    assert whole, block
    return found


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


def reason(typed: str) -> str | None:
    """Return why a command or a program is not run; None if it is."""
    return next((why for begins, why in NOT_RUN.items() if typed.startswith(begins)), None)
