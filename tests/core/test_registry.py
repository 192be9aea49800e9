from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import localrank
from localrank import Registry
from localrank.errors import ArtifactCorrupt, ArtifactNotFound, PublishFailed
from localrank.registry.versions import Promotion
from tests.core.examples import example_queries, example_ranker, provenance

if TYPE_CHECKING:
    from collections.abc import Callable

WHEN = "2026-01-31T12:00:00Z"


@pytest.fixture(scope="module")
def ranker() -> localrank.Ranker:
    return example_ranker("medoid")


@pytest.fixture
def registry(tmp_path: Path, ranker: localrank.Ranker) -> Registry:
    """Five versions of ``web``; the champion was 1, then 3."""
    registry = Registry(tmp_path / "models")
    for _ in range(5):
        registry.publish("web", ranker, provenance(ranker))
    registry.promote("web", 1, since=WHEN)
    registry.promote("web", 3, since=WHEN)
    return registry


def test_versions_are_numbered_in_the_order_of_publishing(registry: Registry) -> None:
    assert ["web"] == registry.models()
    assert [1, 2, 3, 4, 5] == registry.versions("web")


def test_publishing_leaves_the_aliases_alone(registry: Registry, ranker: localrank.Ranker) -> None:
    reference = registry.publish("web", ranker, provenance(ranker))

    assert "web@6" == str(reference)
    assert {"champion": 3} == registry.aliases("web")


@pytest.mark.parametrize(("reference", "version"), [("web", 3), ("web@champion", 3), ("web@4", 4)])
def test_a_reference_is_a_name_a_number_or_an_alias(registry: Registry, reference: str, version: int) -> None:
    resolved = registry.resolve(reference)

    assert ("web", version, registry.models_dir / "web" / str(version)) == (
        resolved.name,
        resolved.version,
        resolved.path,
    )


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("wob", "expected a model 'wob', found web"),
        ("web@9", "web: expected version 9, found 1, 2, 3, 4, 5"),
        ("web@challenger", "web: expected an alias 'challenger', found champion"),
        ("web@", "expected an alias of letters"),
        ("../web", "expected a model name of letters"),
        ("web/../web", "expected a model name of letters"),
        (".web", "expected a model name of letters"),
        ("", "expected a model name of letters"),
        ("web\n", "expected a model name of letters"),
        ("web@03", "web: expected a version number from 1, or an alias, found '03'"),
        ("web@0", "web: expected a version number from 1, or an alias, found '0'"),
        ("web@-1", "expected an alias of letters"),
    ],
)
def test_what_cannot_be_resolved_is_named(registry: Registry, reference: str, message: str) -> None:
    with pytest.raises(ArtifactNotFound) as error:
        registry.resolve(reference)

    assert message in str(error.value)


def test_a_model_without_champion_is_its_only_version(tmp_path: Path, ranker: localrank.Ranker) -> None:
    registry = Registry(tmp_path)
    registry.publish("web", ranker, provenance(ranker))

    assert 1 == registry.resolve("web").version

    registry.publish("web", ranker, provenance(ranker))
    with pytest.raises(
        ArtifactNotFound, match="expected a champion or a single version, found versions 1, 2"
    ):
        registry.resolve("web")


def test_histories_are_kept_and_rollback_goes_one_step_back(registry: Registry) -> None:
    registry.promote("web", 5, since=WHEN)
    assert [Promotion(1, WHEN), Promotion(3, WHEN), Promotion(5, WHEN)] == registry.history("web")

    assert 3 == registry.rollback("web").version
    assert 1 == registry.rollback("web").version
    assert [Promotion(1, WHEN)] == registry.history("web")
    with pytest.raises(
        ArtifactNotFound, match="an earlier version of the alias 'champion', found only version 1"
    ):
        registry.rollback("web")


def test_promoting_the_champion_again_changes_nothing(registry: Registry) -> None:
    before = (registry.models_dir / "web" / "aliases.json").read_bytes()

    registry.promote("web", 3)

    assert before == (registry.models_dir / "web" / "aliases.json").read_bytes()


def test_aliases_do_not_disturb_each_other(registry: Registry) -> None:
    registry.promote("web", 4, "challenger", since=WHEN)

    assert {"champion": 3, "challenger": 4} == registry.aliases("web")
    with pytest.raises(ArtifactNotFound, match="found only version 4"):
        registry.rollback("web", "challenger")
    assert 1 == registry.rollback("web").version
    assert {"champion": 1, "challenger": 4} == registry.aliases("web")


def test_a_version_that_does_not_verify_is_not_promoted(registry: Registry) -> None:
    file = registry.models_dir / "web" / "4" / "scorers.weights.npy"
    file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(ArtifactCorrupt, match=r"scorers\.weights\.npy: expected \d+ bytes, found"):
        registry.promote("web", 4)

    assert {"champion": 3} == registry.aliases("web")


def test_rollback_does_not_go_back_to_a_version_that_does_not_verify(registry: Registry) -> None:
    (registry.models_dir / "web" / "1" / "extra.npy").write_bytes(b"")

    with pytest.raises(ArtifactCorrupt, match=r"extra\.npy: expected only files that the manifest lists"):
        registry.rollback("web")

    assert {"champion": 3} == registry.aliases("web")


def test_prune_keeps_what_an_alias_or_its_history_needs(registry: Registry) -> None:
    pruned = registry.prune("web", keep=1)

    assert (2, 4) == pruned.versions
    assert [1, 3, 5] == registry.versions("web")
    assert 1 == registry.rollback("web").version


@pytest.mark.parametrize("keep", [5, 6, 7, 100])
def test_prune_keeps_all_when_there_are_no_more_than_it_keeps(registry: Registry, keep: int) -> None:
    assert () == registry.prune("web", keep, force=True).versions
    assert [1, 2, 3, 4, 5] == registry.versions("web")


def test_forced_pruning_takes_aliases_along(registry: Registry) -> None:
    registry.promote("web", 5, "challenger", since=WHEN)

    pruned = registry.prune("web", keep=1, force=True)

    assert ((1, 2, 3, 4), ("champion",)) == (pruned.versions, pruned.aliases)
    assert [5] == registry.versions("web")
    assert {"challenger": 5} == registry.aliases("web")


def test_forced_pruning_forgets_history_but_never_moves_an_alias(registry: Registry) -> None:
    registry.promote("web", 5, since=WHEN)

    registry.prune("web", keep=2, force=True)

    assert [4, 5] == registry.versions("web")
    assert [Promotion(5, WHEN)] == registry.history("web")


def test_pruning_takes_signatures_and_reports_along(registry: Registry) -> None:
    family = registry.models_dir / "web"
    for version in (2, 5):
        (family / f"{version}.report.html").write_text("")
        (family / f"{version}.signatures.json").write_text("")

    registry.prune("web", keep=1)

    assert [".lock", "1", "3", "5", "5.report.html", "5.signatures.json", "aliases.json"] == sorted(
        path.name for path in family.iterdir()
    )


def test_pruning_keeps_the_five_newest_by_default(registry: Registry, ranker: localrank.Ranker) -> None:
    for _ in range(2):
        registry.publish("web", ranker, provenance(ranker))

    assert (1, 2) == registry.prune("web", force=True).versions


def test_the_report_of_a_version_stands_beside_it(registry: Registry) -> None:
    assert registry.models_dir / "web" / "3.report.html" == registry.report_path(registry.resolve("web"))


def test_an_alias_notes_when_it_was_moved(registry: Registry) -> None:
    before = datetime.now(UTC).replace(microsecond=0)

    registry.promote("web", 4)

    since = datetime.strptime(registry.history("web")[-1].since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert before <= since <= datetime.now(UTC)


class Acts:
    """What reaches the disk, in its order: ``(what, path, bytes at that time)``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, Path, int]] = []
        rename, replace = Path.rename, Path.replace

        def fsync(handle: int) -> None:
            self.done.append(("sync", Path(f"/proc/self/fd/{handle}").readlink(), os.fstat(handle).st_size))

        def moved(real: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
            def move(path: Path, target: Path) -> Path:
                self.done.append(("move", target, 0))
                return real(path, target)

            return move

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "rename", moved(rename))
        monkeypatch.setattr(Path, "replace", moved(replace))

    def around(self, target: Path) -> tuple[dict[str, int], list[Path]]:
        """Return the names and sizes of what was synchronised before a move to the target, and the paths behind it."""
        at = next(i for i, (what, path, _) in enumerate(self.done) if (what, path) == ("move", target))
        return (
            {path.name: size for what, path, size in self.done[:at] if what == "sync"},
            [path for what, path, _ in self.done[at:] if what == "sync"],
        )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_version_is_on_the_disk_before_it_has_its_number(
    registry: Registry, ranker: localrank.Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = Acts(monkeypatch)

    reference = registry.publish("web", ranker, provenance(ranker))

    before, after = acts.around(reference.path)
    assert {path.name: path.stat().st_size for path in reference.path.iterdir()}.items() <= before.items()
    # The folder, too: as last before the move, and the one above right after it.
    assert list(before)[-1].startswith(".staging-")
    assert registry.models_dir / "web" == after[0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_aliases_are_on_the_disk_before_they_replace_the_old_ones(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    aliases = registry.models_dir / "web" / "aliases.json"
    acts = Acts(monkeypatch)

    registry.promote("web", 5)

    before, after = acts.around(aliases)
    assert [aliases.stat().st_size] == list(before.values())
    assert [registry.models_dir / "web"] == after
    assert 0o644 == aliases.stat().st_mode & 0o777


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_name_of_a_removed_version_is_gone_from_the_disk_before_its_files(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = Acts(monkeypatch)

    registry.prune("web", keep=3)

    (what, hidden, _), (then, family, _) = acts.done
    assert ("move", "2", "sync") == (what, hidden.name, then)
    assert registry.models_dir / "web" == family
    assert not hidden.parent.exists()


def test_a_number_is_not_given_twice_while_its_version_stands(
    registry: Registry, ranker: localrank.Ranker
) -> None:
    registry.prune("web", keep=1)

    assert 6 == registry.publish("web", ranker, provenance(ranker)).version


@pytest.mark.parametrize("name", ["../web", "a/b", "", ".hidden", "web ", "ä", "x" * 65])
def test_a_name_that_could_leave_the_folder_is_refused(
    tmp_path: Path, ranker: localrank.Ranker, name: str
) -> None:
    registry = Registry(tmp_path / "models")

    with pytest.raises(ArtifactNotFound, match="expected a model name of letters"):
        registry.publish(name, ranker, provenance(ranker))

    assert not registry.models_dir.exists()


@pytest.mark.parametrize("alias", ["3", "../x", "", "a b", "a/b"])
def test_an_alias_that_looks_like_something_else_is_refused(registry: Registry, alias: str) -> None:
    with pytest.raises(ArtifactNotFound, match="expected an alias of letters"):
        registry.promote("web", 2, alias)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"aliases": {"champion": 3}}',
        b'{"aliases": {"champion": 2}, "history": {"champion": [{"version": 3, "since": ""}]}}',
        b'{"aliases": {"champion": true}, "history": {"champion": [{"version": true, "since": ""}]}}',
        b'{"aliases": {"champion": 3}, "history": {"champion": []}}',
        b'{"aliases": {"../x": 3}, "history": {"../x": [{"version": 3, "since": ""}]}}',
        b'{"aliases": {}, "history": {}, "more": 1}',
        b'{"aliases": {}, "aliases": {}, "history": {}}',
        b'{"aliases": {"a": 3}, "history": {"a": [{"version": 3, "since": 1}]}}',
        b'{"aliases": {"a": 3}, "history": {"a": [{"version": 3, "since": "", "by": ""}]}}',
        b'{"aliases": {"a": NaN}, "history": {"a": [{"version": NaN, "since": ""}]}}',
        b"\xff",
        b"[" * 100_000,
        b'{"aliases": ' * 100_000,
    ],
)
def test_a_broken_file_of_aliases_is_named(registry: Registry, content: bytes) -> None:
    (registry.models_dir / "web" / "aliases.json").write_bytes(content)

    with pytest.raises(ArtifactCorrupt, match=r"web/aliases\.json: expected"):
        registry.aliases("web")


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (os.mkfifo, "a pipe"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: path.symlink_to("/etc/passwd"), "a symbolic link"),
    ],
    ids=["pipe", "folder", "link"],
)
def test_aliases_are_read_from_a_plain_file_only(
    registry: Registry, make: Callable[[Path], object], found: str
) -> None:
    path = registry.models_dir / "web" / "aliases.json"
    path.unlink()
    make(path)

    with pytest.raises(ArtifactCorrupt, match=rf"web/aliases\.json: expected a plain file, found {found}"):
        registry.resolve("web")


def test_aliases_are_written_for_people_too(registry: Registry) -> None:
    document = json.loads((registry.models_dir / "web" / "aliases.json").read_text())

    assert {"champion": 3} == document["aliases"]
    assert {"champion": [{"version": 1, "since": WHEN}, {"version": 3, "since": WHEN}]} == document["history"]


def test_load_takes_a_model_or_a_version(registry: Registry, ranker: localrank.Ranker) -> None:
    query = example_queries(1, seed=7)[0]

    for path in (
        registry.models_dir / "web",
        registry.models_dir / "web" / "2",
        str(registry.models_dir / "web"),
    ):
        assert ranker.rank(query).scores.tolist() == localrank.load(path).rank(query).scores.tolist()


def test_load_says_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFound, match="expected the folder of a version, found none"):
        localrank.load(tmp_path / "nothing")
    with pytest.raises(ArtifactNotFound, match="expected a model"):
        localrank.load(tmp_path)


def test_pruning_needs_a_number_to_keep(registry: Registry) -> None:
    with pytest.raises(PublishFailed, match="expected to keep 0 versions or more, found -1"):
        registry.prune("web", keep=-1)


@pytest.fixture
def names_only(tmp_path: Path) -> Registry:
    """Three versions of ``web`` without content, for what needs no content."""
    for version in (1, 2, 3):
        (tmp_path / "web" / str(version)).mkdir(parents=True)
    return Registry(tmp_path, verify=lambda _: None)


@pytest.mark.parametrize(
    "change",
    [
        lambda registry: registry.prune("web"),
        lambda registry: registry.promote("web", 2),
    ],
    ids=["prune", "promote"],
)
def test_what_a_process_that_died_was_removing_or_writing_is_swept_away(
    names_only: Registry, change: Callable[[Registry], object]
) -> None:
    family = names_only.models_dir / "web"
    (family / ".removed-0123" / "7").mkdir(parents=True)
    (family / ".removed-0123" / "7" / "array.npy").touch()
    (family / ".draft-0123").touch()

    change(names_only)

    assert [] == [*family.glob(".removed-*"), *family.glob(".draft-*")]
    assert [1, 2, 3] == names_only.versions("web")


def test_a_history_forgets_removed_versions_and_keeps_the_others(names_only: Registry) -> None:
    for version in (1, 3, 2, 3):
        names_only.promote("web", version, "trial", since=WHEN)
    names_only.promote("web", 1, since=WHEN)

    pruned = names_only.prune("web", keep=2, force=True)

    assert ((1,), ("champion",), ()) == (pruned.versions, pruned.aliases, pruned.leftovers)
    assert [3, 2, 3] == [one.version for one in names_only.history("web", "trial")]
    assert {"trial": 3} == names_only.aliases("web")


def test_a_version_takes_its_signatures_and_its_report_with_it(names_only: Registry) -> None:
    family = names_only.models_dir / "web"
    for beside in ("1.signatures.json", "1.report.html", "2.signatures.json", "2.report.html"):
        (family / beside).touch()

    names_only.prune("web", keep=2)

    left = sorted(path.name for path in family.iterdir() if not path.name.startswith("."))
    assert ["2", "2.report.html", "2.signatures.json", "3"] == left


@pytest.mark.parametrize("name", ["0", "01", "1234567890", "1.5", "one"])
def test_only_whole_numbers_from_one_on_are_versions(names_only: Registry, name: str) -> None:
    (names_only.models_dir / "web" / name).mkdir()

    assert [1, 2, 3] == names_only.versions("web")


def test_files_and_links_are_no_versions(names_only: Registry) -> None:
    (names_only.models_dir / "web" / "4").touch()
    (names_only.models_dir / "web" / "5").symlink_to("1")
    (names_only.models_dir / "web" / "123456789").mkdir()

    assert [1, 2, 3, 123_456_789] == names_only.versions("web")


def test_promoting_the_same_version_again_changes_nothing(names_only: Registry) -> None:
    names_only.promote("web", 2, since=WHEN)

    names_only.promote("web", 2, since="2027-01-01T00:00:00Z")

    assert [Promotion(2, WHEN)] == names_only.history("web")


def test_a_rollback_needs_two_entries(names_only: Registry) -> None:
    names_only.promote("web", 2, since=WHEN)
    with pytest.raises(ArtifactNotFound, match="'champion', found only version 2"):
        names_only.rollback("web")
    with pytest.raises(ArtifactNotFound, match="'trial', found none"):
        names_only.rollback("web", "trial")

    names_only.promote("web", 3, since=WHEN)

    assert "web@2" == str(names_only.rollback("web"))
    assert [Promotion(2, WHEN)] == names_only.history("web")


def test_without_a_champion_one_version_is_the_model_and_of_several_none(names_only: Registry) -> None:
    with pytest.raises(ArtifactNotFound, match=r"found versions 1, 2, 3 \(promote one, or .*: web@3\)"):
        names_only.resolve("web")

    names_only.prune("web", keep=1)

    assert "web@3" == str(names_only.resolve("web"))


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="shows the open files of a process on Linux only"
)
def test_reading_aliases_leaves_no_file_open(names_only: Registry) -> None:
    names_only.promote("web", 2)
    before = len(list(Path("/proc/self/fd").iterdir()))

    names_only.aliases("web")
    names_only.history("web")

    assert before == len(list(Path("/proc/self/fd").iterdir()))
