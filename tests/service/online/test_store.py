"""The file of the experiments, and what becomes of canaries beside it."""

from __future__ import annotations

import fcntl
import json
import shutil
import threading
from pathlib import Path

import pytest

from localrank_service.http.problems import Problem
from localrank_service.online.definition import defined, parse
from localrank_service.online.store import ExperimentStore

CANARY = {"name": "web-4", "kind": "canary", "model": "web", "candidate": "web@4"}
RECORD = {"experiment": "web-4", "at": "2026-01-01T00:00:00+00:00", "reason": "errors", "evidence": "all"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "experiments.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shared = tmp_path / "runtime"
    shared.mkdir()
    return shared


def test_a_file_that_is_not_there_has_no_experiments(file: Path, folder: Path) -> None:
    written = ExperimentStore(file, folder).read()

    assert ((), None) == (written.definitions, written.problem)


@pytest.mark.parametrize("name", [".", "..", "/", "folder"])
def test_a_folder_where_the_file_should_be_is_a_problem(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    store = ExperimentStore(Path(name), None)

    with pytest.raises(Problem) as refused:
        store.change("web-4", defined(dict(CANARY)))

    assert ((), "expected a plain file, found a folder") == store.read()[::2]
    assert (
        409,
        "nothing was changed: the file of the experiments is broken: expected a plain file, found a folder",
    ) == (
        refused.value.status,
        refused.value.detail,
    )


def test_a_broken_file_leaves_the_experiments_and_says_why(file: Path, folder: Path) -> None:
    file.write_text(json.dumps({"experiments": [CANARY]}))
    store = ExperimentStore(file, folder)
    before = store.read()

    file.write_text(json.dumps({"experiments": [CANARY | {"kind": "cannary"}]}))
    after = store.read()
    file.write_text(json.dumps({"experiments": []}))
    mended = store.read()

    assert before.definitions == after.definitions
    assert before.generation == after.generation
    assert after.problem == (
        'kind: expected one of canary, split, shadow, interleaving, found "cannary" (at /experiments/0/kind)'
    )
    assert ((), None) == (mended.definitions, mended.problem)


def test_a_file_that_is_not_json_is_called_a_file(file: Path, folder: Path) -> None:
    file.write_text("{")

    problem = ExperimentStore(file, folder).read().problem

    assert problem is not None
    assert problem.startswith("the file is not JSON: ")


def test_a_change_is_in_the_file_and_seen_by_all(file: Path, folder: Path) -> None:
    one, other = ExperimentStore(file, folder), ExperimentStore(file, folder)

    changed = one.change("web-4", defined(dict(CANARY)))

    assert changed.generation == other.read().generation
    assert changed.definitions == parse(file.read_bytes())
    with pytest.raises(Problem, match="no experiment 'web-5'; expected one of: web-4"):
        one.change("web-5", None)
    assert () == other.change("web-4", None).definitions
    assert () == one.read().definitions


def test_a_return_is_noted_once_and_outlives_the_service(file: Path, folder: Path) -> None:
    one, other = ExperimentStore(file, folder), ExperimentStore(file, folder)
    before = one.change("web-4", defined(dict(CANARY)))
    run = before.definitions[0].run

    noted = one.note_return(run, RECORD), other.note_return(run, RECORD)
    later = ExperimentStore(file, None).read()

    assert (True, False) == noted
    assert RECORD == other.read().returned[run] == later.returned[run]
    assert before.generation != later.generation == other.read().generation


def test_an_experiment_that_is_added_again_begins_again(file: Path, folder: Path) -> None:
    store = ExperimentStore(file, folder)
    run = store.change("web-4", defined(dict(CANARY))).definitions[0].run
    store.note_return(run, RECORD)

    store.change("web-4", None)
    again = store.change("web-4", defined(dict(CANARY)))

    assert run == again.definitions[0].run
    assert run not in again.returned


def test_a_folder_that_cannot_be_written_still_keeps_the_canary_away(file: Path, folder: Path) -> None:
    missing = file.parent / "gone" / "experiments.json"
    store = ExperimentStore(missing, folder)

    with pytest.raises(Problem, match="nothing was changed: cannot write") as found:
        store.change("web-4", defined(dict(CANARY)))
    noted = store.note_return("run", RECORD)

    assert 503 == found.value.status
    assert noted
    assert RECORD == ExperimentStore(missing, folder).read().returned["run"]


def test_a_file_that_cannot_be_read_leaves_the_experiments_until_it_can(file: Path, folder: Path) -> None:
    file.write_text(json.dumps({"experiments": [CANARY]}))
    store = ExperimentStore(file, folder)
    before = store.read()
    file.unlink()
    file.mkdir()
    unreadable = store.read()
    with pytest.raises(
        Problem, match="the file of the experiments is broken: expected a plain file, found a folder"
    ) as found:
        store.change("web-4", None)
    file.rmdir()

    assert (before.definitions, "expected a plain file, found a folder") == (
        unreadable.definitions,
        unreadable.problem,
    )
    assert 409 == found.value.status
    assert ((), None) == (store.read().definitions, store.read().problem)


def test_without_a_folder_a_return_is_noted_beside_the_file_and_in_the_process(file: Path) -> None:
    store = ExperimentStore(file, None)
    run = store.change("web-4", defined(dict(CANARY))).definitions[0].run

    noted = store.note_return(run, RECORD), store.note_return(run, RECORD)
    beside = file.with_name("experiments.json.returned")
    outlives = ExperimentStore(file, None).read().returned
    beside.unlink()

    assert (True, False) == noted
    assert {run: RECORD} == outlives == store.read().returned


def test_notes_that_are_damaged_are_none(file: Path, folder: Path) -> None:
    file.with_name("experiments.json.returned").write_text("[1]")
    assert {} == ExperimentStore(file, folder).read().returned
    file.with_name("experiments.json.returned").write_text("{")
    assert {} == ExperimentStore(file, folder).read().returned


@pytest.mark.parametrize(
    "damaged",
    [5, None, [], {}, {"evidence": "all"}, RECORD | {"evidence": 5}, RECORD | {"more": "all"}],
)
def test_a_record_that_is_damaged_is_none_and_the_others_stay(
    damaged: object, file: Path, folder: Path
) -> None:
    file.with_name("experiments.json.returned").write_text(json.dumps({"run": damaged, "other": RECORD}))

    assert {"other": RECORD} == ExperimentStore(file, folder).read().returned


def test_if_the_shared_folder_is_removed_a_return_is_noted_beside_the_file_and_a_change_is_refused(
    file: Path, folder: Path
) -> None:
    store = ExperimentStore(file, folder)
    run = store.change("web-4", defined(dict(CANARY))).definitions[0].run
    shutil.rmtree(folder)

    noted = store.note_return(run, RECORD), store.note_return(run, RECORD)
    with pytest.raises(Problem) as refused:
        store.change("web-4", None)

    assert (True, False) == noted
    assert {run: RECORD} == store.read().returned
    assert (503, "nothing was changed: cannot tell the workers: No such file or directory") == (
        refused.value.status,
        refused.value.detail,
    )
    assert 1 == len(parse(file.read_bytes()))


def test_whoever_changes_or_notes_something_waits_for_the_others(file: Path, folder: Path) -> None:
    store, done = ExperimentStore(file, folder), threading.Event()
    before = store.change("web-4", defined(dict(CANARY)))

    def change() -> None:
        store.note_return(before.definitions[0].run, RECORD)
        store.change("web-4", None)
        done.set()

    with (folder / "experiments.note").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = threading.Thread(target=change)
        waiting.start()
        early = done.wait(0.05)
        untouched = ExperimentStore(file, folder).read()
    waiting.join(10)

    assert (False, True) == (early, done.is_set())
    assert before == untouched
    assert () == store.read().definitions


def test_what_is_changed_stays_where_it_was_among_the_others(file: Path, folder: Path) -> None:
    store = ExperimentStore(file, folder)
    for name in ("a", "b", "c"):
        store.change(name, defined({**CANARY, "name": name, "kind": "shadow"}))

    changed = store.change("b", defined({**CANARY, "name": "b", "kind": "shadow", "percent": 7}))

    assert ["a", "b", "c"] == [one.name for one in changed.definitions]
    assert [100.0, 7.0, 100.0] == [one.percent for one in changed.definitions]
    assert ["a", "c"] == [one.name for one in store.change("b", None).definitions]
    assert 12 == len(changed.generation)
    assert 0o600 == (folder / "experiments.note").stat().st_mode & 0o777
