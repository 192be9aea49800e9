from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import Ranker, Registry
from localrank.__main__ import main
from localrank.artifact import Cluster, Provenance
from localrank.features.contract import FeatureContract
from localrank.features.feature import Feature
from localrank.points.representation import NoRepresentation
from localrank.points.signature import PcaRepresentation
from localrank.routing.guard import Guard, GuardedRanker, Thresholds
from localrank.routing.router import GlobalRouter
from localrank.routing.routers import MedoidRouter
from localrank.scorers import LinearScorer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Three versions of ``web``, the second being champion."""
    documents = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 0.0]], np.float32)
    representation = PcaRepresentation(1)
    registry = Registry(tmp_path / "models")
    for weight in (1.0, 2.0, -1.0):
        ranker = Ranker(
            contract=FeatureContract.learn(documents, [3], names=["bm25", "pagerank"]),
            representation=representation,
            router=MedoidRouter(representation.sign_all([documents])),
            scorers=(LinearScorer(np.array([weight, 0.0])),),
            global_scorer=LinearScorer(np.array([1.0, 1.0])),
        )
        registry.publish(
            "web",
            ranker,
            Provenance(
                created="2026-01-31T12:00:00Z",
                source={"configuration": {"learner": {"C": weight}}},
                probe=[documents],
                clusters=[Cluster(1, "q7", {"map": 0.5})],
                metrics={"map": {"local": 0.5}},
            ),
        )
    registry.promote("web", 1, since="2026-01-31T12:00:00Z")
    registry.promote("web", 2, since="2026-02-01T12:00:00Z")
    return registry.models_dir


def run(models: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["models", *arguments, "--models-dir", str(models)])
    return code, *capsys.readouterr()


def test_list_shows_every_version_with_its_aliases(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(models, capsys, "list")
    _, answer, _ = run(models, capsys, "list", "--json")

    assert 0 == code
    assert ["web", "2", "champion", "2026-01-31T12:00:00Z"] == text.splitlines()[2].split()[:4]
    assert [[], ["champion"], []] == [one["aliases"] for one in json.loads(answer)]
    assert {2} == {one["features"] for one in json.loads(answer)}


def test_list_tells_how_large_every_version_is(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer, _ = run(models, capsys, "list", "--json")

    for one in json.loads(answer):
        arrays = (models / "web" / str(one["version"])).glob("*.npy")
        assert sum(path.stat().st_size for path in arrays) == one["bytes"]
        assert (1, "medoid") == (one["clusters"], one["router"])


def test_a_folder_without_models_says_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, errors = run(tmp_path, capsys, "list")

    assert (0, "") == (code, text)
    assert f"{tmp_path}: no published model; localrank train publishes one\n" == errors
    assert (0, "[]\n", "") == run(tmp_path, capsys, "list", "--json")


def test_models_alone_prints_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["models"])

    assert "rollback" in capsys.readouterr().out


def test_list_names_a_broken_version_and_lists_the_others(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "web" / "1" / "manifest.json").write_text("")

    code, text, errors = run(models, capsys, "list")

    assert 0 == code
    assert 4 == len(text.splitlines())
    assert "web/1: manifest.json: expected a JSON object, found an empty file" in errors


def test_list_names_broken_aliases_and_lists_the_versions(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "web" / "aliases.json").write_text("{")

    code, text, errors = run(models, capsys, "list")
    _, answer, beside = run(models, capsys, "list", "--json")

    assert 0 == code
    assert 4 == len(text.splitlines())
    assert errors.startswith(f"broken: {models / 'web' / 'aliases.json'}: expected JSON: ")
    assert errors == beside
    assert [[], [], []] == [one["aliases"] for one in json.loads(answer)]


def test_show_tells_where_a_version_comes_from(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(models, capsys, "show", "web")
    _, answer, _ = run(models, capsys, "show", "web@2", "--json")

    assert 0 == code
    for expected in ("web@2", "2: bm25, pagerank", "map.local", "q7", "configuration.learner.C"):
        assert expected in text
    assert 2 == json.loads(answer)["manifest"]["version"]
    assert [1, 2] == [one["version"] for one in json.loads(answer)["history"]["champion"]]


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """One version with two clusters, one of which shares the global scorer, and figures of every form."""
    documents = np.array([[0.0] * 7, [1.0, 0.5] + [0.0] * 5, [2.0] + [0.0] * 6], np.float32)
    representation = PcaRepresentation(1)
    everywhere = LinearScorer(np.ones(7))
    contract = FeatureContract.learn(documents, [3], missing=(*("zero",) * 6, "median"))
    normalised = contract.cloud(documents).normalised
    ranker = Ranker(
        contract=contract,
        representation=representation,
        router=MedoidRouter(representation.sign_all([normalised, normalised[:, ::-1]])),
        scorers=(LinearScorer(np.arange(7.0)), everywhere),
        global_scorer=everywhere,
    )
    guard = Guard(similarity=Thresholds(None, 0.12345), distance=Thresholds(0.25, 0.5))
    registry = Registry(tmp_path / "models")
    registry.publish(
        "web",
        GuardedRanker.around(ranker, guard),
        Provenance(
            created="2026-01-31T12:00:00Z",
            source={},
            probe=[documents],
            clusters=[Cluster(3, "q7", {"map": 0.5, "gain": 0.0001234}), Cluster(12, None, {})],
            metrics={
                "map": {"local": 0.25, "least": -0.0001, "edge": 0.001, "none": 0.0, "queries": 15},
                "folds": [
                    {"fold": 1, "map": 0.25, "against": [{"p": 0.5}]},
                    {"fold": 2, "map": 0.75, "against": [{"p": 0.25}]},
                ],
                "within": {"table": [{"a": 1}]},
                "odd": [{"a": 1}, {"b": 2}],
                "nothing": [],
            },
            stability={"six": [1, 2, 3, 4, 5, 6], "seven": [1, 2, 3, 4, 5, 6, 7]},
            notes=["one", "two"],
        ),
    )
    return registry.models_dir


def test_show_prints_all_that_a_manifest_says(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = json.loads((described / "web" / "1" / "manifest.json").read_text())
    arrays = list((described / "web" / "1").glob("*.npy"))
    Registry(described).promote("web", 1, "stable")
    Registry(described).promote("web", 1)

    code, text, _ = run(described, capsys, "show", "web")

    facts, *tables = (part.splitlines() for part in text.split("\n\n"))
    assert 0 == code
    assert [
        "model           web@1",
        f"path            {described}/web/1",
        "report          none: localrank train --report FILE makes one",
        "created         2026-01-31T12:00:00Z",
        f"manifest        sha256:{manifest['sha256']}",
        "aliases         champion, stable",
        f"contract        {manifest['contract_hash']}",
        "features        7: f1, f2, f3, f4, f5, f6, ... (7)",
        "normalise       query_minmax",
        "missing         median, zero",
        "representation  pca, components = 1",
        "router          medoid",
        "guard           similarity 0.123: global, distance 0.25: blend, distance 0.5: global",
        "scorers         linear",
        "clusters        2 of 3 to 12 queries, 1 with a scorer of their own",
        f"files           {len(arrays)}, {sum(path.stat().st_size for path in arrays)} bytes",
    ] == facts
    assert [
        [
            "cluster  size  exemplar  gain         map",
            "      0     3  q7        0.000123  0.5000",
            "      1    12  -         -              -",
        ],
        [
            "metrics",
            "map.local    0.2500",
            "map.least    -0.0001",
            "map.edge     0.0010",
            "map.none     0.0000",
            "map.queries  15",
            "odd.1.a      1",
            "odd.2.b      2",
            "nothing",
        ],
        ["metrics.folds", "fold     map", "   1  0.2500", "   2  0.7500"],
        ["metrics.within.table", "a", "1"],
        [
            "stability",
            "six        1, 2, 3, 4, 5, 6",
            "seven      1, 2, 3, 4, 5, 6, ... (7)",
            "note: one",
            "note: two",
        ],
    ] == tables


def test_show_names_the_report_that_stands_beside_a_version(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = models / "web" / "2.report.html"
    without = json.loads(run(models, capsys, "show", "web@2", "--json")[1])
    report.write_text("")

    _, text, _ = run(models, capsys, "show", "web@2")
    answer = json.loads(run(models, capsys, "show", "web@2", "--json")[1])

    assert (None, str(report)) == (without["report"], answer["report"])
    assert f"report          {report}" in text.splitlines()
    assert (str(models / "web" / "2"), {"champion": 2}) == (answer["path"], answer["aliases"])


def test_show_tells_that_a_model_has_no_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = np.array([[0.0, 0.0], [1.0, 0.5]], np.float32)
    contract = FeatureContract.learn(documents, [2])
    ranker = Ranker(contract, NoRepresentation(), GlobalRouter(), (), LinearScorer(np.ones(2)))
    Registry(tmp_path).publish("web", ranker, Provenance("2026-01-31T12:00:00Z", {}, [documents]))

    lines = run(tmp_path, capsys, "show", "web")[1].splitlines()

    assert {"clusters        none", "guard           none", "representation  none"} <= set(lines)
    assert not [line for line in lines if line.startswith("cluster ")]


def test_show_names_categories_and_features_of_the_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = np.array([[0.0, 0.0], [1.0, 0.0]], np.float32)
    features = (Feature("brand", "category", ("nike", "kobo")), Feature("hour", scope="query"))
    contract = FeatureContract.learn(documents, [2], features=features)
    ranker = Ranker(contract, NoRepresentation(), GlobalRouter(), (), LinearScorer(np.ones(2)))
    Registry(tmp_path).publish("web", ranker, Provenance("2026-01-31T12:00:00Z", {}, [documents]))

    lines = run(tmp_path, capsys, "show", "web")[1].splitlines()

    assert {"categories      brand (2)", "of the query    hour"} <= set(lines)


def test_verify_counts_files_bytes_and_probe_queries(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = list((models / "web" / "3").iterdir())
    size = sum(path.stat().st_size for path in files if path.suffix == ".npy")

    (answer,) = json.loads(run(models, capsys, "verify", "web@3", "--json")[1])
    _, text, _ = run(models, capsys, "verify", "web@3")

    assert (len(files), size, 1) == (answer["files"], answer["bytes"], answer["probe"])
    assert (
        f"web@3 is good: {len(files)} files, {size} bytes, 1 probe queries, scores within 0.0e+00\n" == text
    )


def test_sign_says_which_key_has_signed(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key, password = tmp_path / "signing.pem", tmp_path / "password"
    key.write_bytes(
        ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    password.write_bytes(b"secret\n")
    given = ("sign", "web@3", "--key", str(key), "--password-file", str(password))

    code, text, _ = run(models, capsys, *given)
    answer = json.loads(run(models, capsys, *given, "--json")[1])

    assert 0 == code
    assert re.fullmatch(r"web@3 is signed by the key [0-9a-f]{16}\n", text)
    assert ("web", 3) == (answer["name"], answer["version"])
    assert text.split()[-1] == answer["key"][:16]


def test_verify_answers_for_every_version_asked(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(models, capsys, "verify", "web@1", "web")
    _, answer, _ = run(models, capsys, "verify", "web@3", "--json")

    assert 0 == code
    assert ["web@1 is good", "web@2 is good"] == [line.split(":")[0] for line in text.splitlines()]
    assert [("web", 3, 0.0)] == [
        (one["name"], one["version"], one["deviation"]) for one in json.loads(answer)
    ]


def test_verify_fails_in_one_line_that_names_the_file(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = models / "web" / "3" / "scorers.weights.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    code, text, errors = run(models, capsys, "verify", "web@3")

    assert (1, "") == (code, text)
    assert 1 == len(errors.splitlines())
    assert "web/3: scorers.weights.npy: expected SHA-256" in errors


def test_promote_and_rollback_move_the_champion(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (0, "web@champion is version 3\n", "") == run(models, capsys, "promote", "web", "3")
    assert {"champion": 3} == Registry(models).aliases("web")

    assert (0, "web@champion is version 2\n", "") == run(models, capsys, "rollback", "web")
    code, answer, _ = run(models, capsys, "rollback", "web", "--json")
    assert (0, {"name": "web", "alias": "champion", "version": 1}) == (code, json.loads(answer))

    code, _, errors = run(models, capsys, "rollback", "web")
    assert 1 == code
    assert "expected an earlier version" in errors


def test_promote_can_move_another_alias(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(models, capsys, "promote", "web", "3", "--alias", "challenger")

    assert (0, "web@challenger is version 3\n") == (code, text)
    assert {"champion": 2, "challenger": 3} == Registry(models).aliases("web")


def test_prune_says_what_is_gone_and_what_is_left(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (0, "removed: 3; left: 1, 2\n", "") == run(models, capsys, "prune", "web", "--keep", "0")

    code, answer, _ = run(models, capsys, "prune", "web", "--keep", "1", "--force", "--json")
    assert 0 == code
    assert {"name": "web", "removed": [1], "aliases_removed": [], "left": [2]} == json.loads(answer)


def test_prune_keeps_five_versions_unless_told_otherwise(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in range(4, 8):
        shutil.copytree(models / "web" / "3", models / "web" / str(version))

    # Versions 1 and 2 are needed by the champion and its history; the five newest are 3 to 7.
    assert (0, "removed: none; left: 1, 2, 3, 4, 5, 6, 7\n", "") == run(models, capsys, "prune", "web")
    code, text, _ = run(models, capsys, "prune", "web", "--force")
    assert (0, "removed: 1, 2; left: 3, 4, 5, 6, 7") == (code, text.splitlines()[0])


def test_pruning_everything_leaves_nothing(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(models, capsys, "prune", "web", "--keep", "0", "--force")

    assert 0 == code
    assert [
        "removed: 1, 2, 3; left: none",
        "removed the alias 'champion': its version is removed",
    ] == text.splitlines()


def test_diff_compares_settings_and_rankings(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(models, capsys, "diff", "web@2", "web@3")
    _, answer, _ = run(models, capsys, "diff", "web@2", "web@3", "--json")

    assert 0 == code
    assert ["configuration.learner.C", "2", "-1"] == text.splitlines()[1].split()
    assert {"path": "configuration.learner.C", "before": 2.0, "after": -1.0} in json.loads(answer)["settings"]
    # The weight has the other sign: the order is the reverse.
    assert [-1.0, -1.0] == [one["tau"] for one in json.loads(answer)["probe"]]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", "wob"], 1),
        (["show", "web@9"], 1),
        (["promote", "web", "9"], 1),
        (["promote", "web", "three"], 2),
        (["prune", "web", "--keep", "-1"], 2),
        (["promote", "web", "-1"], 2),
        (["sign", "web"], 2),
        (["list", "--models-dir", ""], 2),
        (["list", "--js"], 2),
        (["verify"], 2),
        (["publish"], 2),
        (["export", "web"], 2),
        (["--"], 2),
        (["--hel"], 2),
        ([], 2),
    ],
)
def test_the_exit_code_tells_failure_from_wrong_use(
    models: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert code == run(models, capsys, *arguments)[0]


def test_wrong_use_is_one_sentence(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, errors = run(models, capsys, "prune", "web", "--keep", "-1")

    assert "" == text
    assert errors == (
        "localrank: --keep: expected a whole number, at least 0, found '-1' "
        "(see localrank models prune --help)\n"
    )


def test_the_folder_of_models_may_be_set_by_the_environment(
    models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALRANK_MODELS_DIR", str(models))

    assert 0 == main(["models", "rollback", "web"])

    assert "web@champion is version 1\n" == capsys.readouterr().out


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run(tmp_path / "nowhere", capsys, "list")

    assert 1 == code
    assert f"{tmp_path}/nowhere: expected a folder of models, found none" in errors


@pytest.mark.parametrize(
    "command", ["list", "show", "verify", "sign", "promote", "rollback", "prune", "diff"]
)
def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert 0 == main(["models", command, "--help"])

    assert f"Example: localrank models {command}" in capsys.readouterr().out


def test_it_works_with_the_core_alone(models: Path) -> None:
    """What the extras bring is made impossible to import."""
    absent = ["typer", "click", "rich", "pydantic", "pyarrow", "threadpoolctl", "sklearn", "cryptography"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "from localrank.__main__ import main\n"
        f"assert main(['models', 'diff', 'web@1', 'web@3', '--models-dir', {str(models)!r}]) == 0\n"
        "halves = {'localrank_service', 'localrank_training'} & sys.modules.keys()\n"
        "print(halves, file=sys.stderr)"
    )

    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert "set()\n" == answer.stderr
