"""Tables whose publishers are killed or many, that nobody trusted has signed, and that change under load of real workers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from localrank.__main__ import main
from localrank.artifact import Provenance
from localrank.artifact.signing import TrustedKeys
from localrank.errors import ArtifactUntrusted
from localrank.features.contract import FeatureContract
from localrank.features.feature import Feature
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.registry.tables import publish, tables_in
from localrank.registry.versions import CHAMPION, Registry
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer
from localrank.tables import generation
from tests.end_to_end.serving import serving
from tests.hostile.table_publisher import ITEMS

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
X = Feature("x", table="items")


def start(models: Path, seed: int, rounds: int = 10_000) -> subprocess.Popen[str]:
    script = str(Path(__file__).with_name("table_publisher.py"))
    return subprocess.Popen(
        [sys.executable, script, str(models), str(seed), str(rounds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )


def assert_whole(models: Path) -> list[int]:
    """Every generation is good and of one publisher, and the alias names one that exists; return the numbers."""
    tables = tables_in(models)
    numbers = [number for _, number in tables.published()]
    for number in numbers:
        read = generation.verify(tables.models_dir / "items" / str(number))
        assert read.manifest.version == number
        assert {float(read.manifest.source["seed"])} == set(read.table.values.ravel().tolist())
    if numbers and tables.aliases("items"):
        assert tables.aliases("items")[CHAMPION] in numbers
    return numbers


def test_a_killed_publisher_leaves_whole_generations(tmp_path: Path) -> None:
    chance = random.Random(1)
    for seed in range(6):
        process = start(tmp_path, seed)
        assert process.stdout is not None
        for _ in range(chance.randint(1, 3)):
            said = process.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
        process.stdout.close()

        assert int(said.split()[1]) <= max(assert_whole(tmp_path))
    publish(
        tables_in(tmp_path),
        "items",
        (Feature("x"),),
        ["a"],
        np.zeros((1, 1), np.float32),
        created="now",
        source={},
    )
    family = tmp_path / ".tables" / "items"
    assert {".lock"} == {entry.name for entry in family.iterdir() if entry.name.startswith(".")}


def test_publishers_at_once_get_different_numbers(tmp_path: Path) -> None:
    processes = [start(tmp_path, seed, rounds=3) for seed in range(2)]
    said = [process.communicate(timeout=120)[0] for process in processes]

    assert [0, 0] == [process.returncode for process in processes]
    numbers = [int(line.split()[1]) for text in said for line in text.splitlines()]
    assert list(range(1, 7)) == sorted(numbers)
    assert_whole(tmp_path)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A model ``shop`` whose score is ``x`` of the table ``items``, and a generation in which it is 1."""
    folder = tmp_path / "models"
    renew(folder, 1)
    contract = FeatureContract.learn(
        np.array([[1.0], [2.0]], np.float32), [2], features=(X,), missing="zero", normalise="none"
    )
    ranker = Ranker(contract, NoRepresentation(), GlobalRouter(), (), LinearScorer(np.array([1.0])))
    registry = Registry(folder)
    probe = [np.array([[1.0], [2.0]], np.float32)]
    registry.publish("shop", ranker, Provenance("2026-01-01T00:00:00Z", source={}, probe=probe))
    registry.promote("shop", 1)
    return folder


def renew(folder: Path, value: float) -> int:
    ids = [f"item {number}" for number in range(ITEMS)]
    values = np.full((ITEMS, 40), value, np.float32)
    columns = (replace(X, table=None), *(Feature(f"further {number}") for number in range(39)))
    made = publish(
        tables_in(folder), "items", columns, ids, values, created="2026-01-01T00:00:00Z", source={}
    )
    return made.version


def load(client: httpx.Client, done: threading.Event, answers: list[Any]) -> None:
    body = {"ids": [f"item {number}" for number in range(0, ITEMS, 50)], "features": [[]] * (ITEMS // 50)}
    while not done.is_set():
        answers.append(client.post("/v1/rerank", json=body).json())


def test_every_answer_is_of_one_generation_while_generations_change_and_their_files_are_cut(
    models: Path,
) -> None:
    done = threading.Event()
    answers: list[Any] = []
    with serving(models, "--workers", "2", "--poll-seconds", "0.05") as client:
        asking = [threading.Thread(target=load, args=(client, done, answers)) for _ in range(2)]
        for one in asking:
            one.start()
        for number in range(2, 9):
            assert number == renew(models, float(number))
            for path in (models / ".tables" / "items" / str(number - 1)).iterdir():
                path.write_bytes(path.read_bytes()[:100])
            deadline = time.monotonic() + 30
            while {number} != {one["tables"]["items"] for one in answers[-1:]}:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        done.set()
        for one in asking:
            one.join()
        ready = client.get("/readyz").json()

    seen = set()
    for answer in answers:
        number = answer["tables"]["items"]
        seen.add(number)
        assert {float(number)} == {one["score"] for one in answer["results"]}
    assert 8 in seen
    assert {} == ready["broken"]


def private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_a_generation_that_nobody_trusted_has_signed_is_not_looked_into(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    (tmp_path / "key.pem").write_bytes(private_pem(key))
    public = tmp_path / "public.pem"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    sign = ("--key", str(tmp_path / "key.pem"), "--models-dir", str(models))
    assert 0 == main(["models", "sign", "shop", *sign])
    assert 0 == main(["tables", "sign", "items", *sign])
    asked = ["tables", "verify", "items", "--require-signature", str(public), "--models-dir", str(models)]
    assert 0 == main(asked)
    folder = models / ".tables" / "items" / "1"
    assert 1 == generation.load(folder, trusted=TrustedKeys.read(public)).manifest.version

    with serving(models, "--require-signature", str(public), "--poll-seconds", "0.05") as client:
        renew(models, 2.0)
        deadline = time.monotonic() + 30
        while "refused" not in (shown := client.get("/readyz").json()["tables"]["shop@1"]["items"]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        unsigned = client.post("/v1/rerank", json={"ids": ["item 1"], "features": [[]]}).json()

    assert "signature" in shown["refused"]
    assert {"items": 1} == unsigned["tables"]
    assert 1 == main(asked)
    assert "signature" in capsys.readouterr().err
    with pytest.raises(ArtifactUntrusted):
        generation.load(models / ".tables" / "items" / "2", trusted=TrustedKeys.read(public))
