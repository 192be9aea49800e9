"""A folder of models at a URL, pushed to and followed: on a volume, in memory, behind a web server."""

from __future__ import annotations

import functools
import http.server
import json
import multiprocessing
import shutil
import subprocess
import sys
import threading
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank.__main__ import main
from localrank.errors import (
    ArtifactCorrupt,
    ArtifactNotFound,
    InvalidConfiguration,
    PublishFailed,
    StoreUnavailable,
)
from localrank.registry import mirror as mirrors
from localrank.registry.mirror import Mirror, Pulled, leading, pulling, read_note, seen
from localrank.registry.remote import RemoteStore, push
from localrank.registry.versions import Registry
from tests.core.examples import example_ranker, provenance
from tests.core.test_registry import Acts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; a client that hangs up is no error of the server."""
        with suppress(ConnectionError):
            super().copyfile(source, outputfile)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four versions of ``web``, champion 1 and challenger 2."""
    registry = Registry(tmp_path_factory.mktemp("published"))
    for seed in range(4):
        ranker = example_ranker(seed=seed)
        registry.publish("web", ranker, provenance(ranker))
    registry.promote("web", 1)
    registry.promote("web", 2, "challenger")
    return registry.models_dir


@pytest.fixture
def origin(published: Path, tmp_path: Path) -> Registry:
    """Where versions are published."""
    return Registry(shutil.copytree(published, tmp_path / "origin"))


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The folder behind the URL."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def store(there: Path) -> RemoteStore:
    return RemoteStore(f"file://{there}")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


@pytest.fixture
def http_url(there: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(there))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)


def test_what_is_pushed_is_what_is_pulled_through_a_file_system_in_memory(
    origin: Registry, here: Path
) -> None:
    store = RemoteStore(f"memory://{uuid.uuid4().hex}/models/")

    pushed = push(store, origin, "web")
    pulled = Mirror(store, here).pull()

    assert ((1, 2), {"champion": 1, "challenger": 2}) == (pushed.sent, pushed.aliases)
    assert ["web@1", "web@2"] == sorted(pulled.fetched)
    assert {} == pulled.broken
    for version in ("1", "2"):
        assert tree(origin.models_dir / "web" / version) == tree(here / "web" / version)
    assert origin.history("web") == Registry(here).history("web")
    assert read_note(here) is not None
    assert seen(here) is not None


def test_what_is_pushed_to_a_volume_is_pulled_from_a_web_server(
    origin: Registry, store: RemoteStore, here: Path, http_url: str
) -> None:
    push(store, origin, "web")
    mirror = Mirror(RemoteStore(http_url), here)

    first = mirror.pull()
    second = mirror.pull()
    origin.promote("web", 3)
    push(store, origin, "web")
    third = mirror.pull()

    assert ["web@1", "web@2"] == sorted(first.fetched)
    assert not second.changed
    assert ["fetched web@3", "web@champion is version 3, was 1"] == third.lines()
    assert {"champion": 3, "challenger": 2} == Registry(here).aliases("web")


def test_a_rollback_at_the_url_fetches_nothing_again(
    origin: Registry, store: RemoteStore, here: Path
) -> None:
    mirror = Mirror(store, here)
    push(store, origin, "web")
    mirror.pull()
    origin.promote("web", 3)
    push(store, origin, "web")
    mirror.pull()

    origin.rollback("web")
    push(store, origin, "web")
    pulled = mirror.pull()

    assert ["web@champion is version 1, was 3", "removed web@3"] == pulled.lines()


def test_only_the_versions_of_now_and_before_are_kept(
    origin: Registry, store: RemoteStore, here: Path
) -> None:
    mirror = Mirror(store, here)
    for version in (1, 3, 4):
        origin.promote("web", version)
        push(store, origin, "web")
        mirror.pull()

    assert [2, 3, 4] == Registry(here).versions("web")


def test_a_registry_that_pulls_by_hand_loses_no_version(
    origin: Registry, store: RemoteStore, tmp_path: Path
) -> None:
    """Only a folder that began as a copy of the URL is tidied."""
    push(store, origin, "web")
    own = Registry(tmp_path / "own")
    ranker = example_ranker(seed=9)
    own.publish("mine", ranker, provenance(ranker))

    pulled = Mirror(store, own.models_dir).pull()
    origin.promote("web", 3)
    push(store, origin, "web")
    Mirror(store, own.models_dir).pull()

    assert ["web@1", "web@2"] == sorted(pulled.fetched)
    assert [1, 2, 3] == own.versions("web")
    assert ["mine", "web"] == own.models()
    assert read_note(own.models_dir) is None


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda folder: damage(folder / "probe.scores.npy"), "web/3/probe.scores.npy: expected SHA-256"),
        (
            lambda folder: (folder / "probe.scores.npy").unlink(),
            "web/3/probe.scores.npy: expected a file, found none",
        ),
        (lambda folder: (folder / "probe.scores.npy").write_bytes(b"x"), "web/3/probe.scores.npy: expected "),
        (lambda folder: damage(folder / "manifest.json"), "web/3/manifest.json: "),
        (
            lambda folder: (folder / "manifest.json").unlink(),
            "web/3/manifest.json: expected a file, found none",
        ),
        (shutil.rmtree, "web/3/manifest.json: expected a file, found none"),
    ],
    ids=["flipped", "missing", "short", "manifest", "no manifest", "no folder"],
)
def test_a_version_that_is_broken_there_is_named_and_changes_nothing_here(
    origin: Registry, store: RemoteStore, there: Path, here: Path, *, harm: Any, said: str
) -> None:
    push(store, origin, "web")
    mirror = Mirror(store, here)
    mirror.pull()
    origin.promote("web", 3)
    origin.promote("web", 4, "challenger")
    push(store, origin, "web")
    harm(there / "web" / "3")

    pulled = mirror.pull()

    assert ["web"] == list(pulled.broken)
    assert pulled.broken["web"].startswith(f"version 3: {said}")
    # The challenger is another alias, and moves.
    assert {"champion": 1, "challenger": 4} == Registry(here).aliases("web")
    assert [1, 2, 4] == Registry(here).versions("web")
    assert not [path for path in here.rglob(".staging-*") if path.is_dir()]
    note = read_note(here)
    assert note is not None
    assert (None, pulled.broken) == (note.error, note.broken)


def test_a_broken_version_is_fetched_again_after_a_while_and_when_its_alias_moves(
    origin: Registry, store: RemoteStore, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store, origin, "web")
    good = (there / "web" / "1" / "probe.scores.npy").read_bytes()
    damage(there / "web" / "1" / "probe.scores.npy")
    mirror = Mirror(store, here)
    first = mirror.pull()
    (there / "web" / "1" / "probe.scores.npy").write_bytes(good)

    second = mirror.pull()
    monkeypatch.setattr(mirror, "_thorough_at", 0.0)
    third = mirror.pull()

    assert first.broken == second.broken
    assert {} == third.broken
    assert {"champion": 1, "challenger": 2} == Registry(here).aliases("web")


def test_more_than_the_manifest_says_is_not_fetched(
    origin: Registry, store: RemoteStore, there: Path, here: Path, http_url: str
) -> None:
    push(store, origin, "web")
    with (there / "web" / "1" / "probe.scores.npy").open("ab") as file:
        file.truncate(2**26)

    pulled = Mirror(RemoteStore(http_url), here).pull()

    assert "found more" in pulled.broken["web"]
    assert ["web@2"] == pulled.fetched


def test_a_copy_that_was_damaged_here_is_fetched_again(
    origin: Registry, store: RemoteStore, here: Path
) -> None:
    push(store, origin, "web")
    Mirror(store, here).pull()
    damage(here / "web" / "1" / "probe.scores.npy")
    damage(here / "web" / "2" / "manifest.json")

    pulled = Mirror(store, here).pull()

    assert ["web@1", "web@2"] == sorted(pulled.fetched)
    artifact.verify(here / "web" / "1")
    artifact.verify(here / "web" / "2")


def test_another_version_under_the_same_number_is_refused(
    origin: Registry, store: RemoteStore, there: Path, here: Path
) -> None:
    push(store, origin, "web")
    mirror = Mirror(store, here)
    mirror.pull()
    before = tree(here / "web" / "1")
    ranker = example_ranker(seed=7)
    other = Registry(there.parent / "other")
    other.publish("web", ranker, provenance(ranker))
    other.promote("web", 1)

    with pytest.raises(
        PublishFailed, match="web/1: expected the same version as in this folder, found a different one"
    ):
        push(store, other, "web", force=True)
    shutil.rmtree(there / "web")
    push(store, other, "web")
    pulled = mirror.pull()

    assert (
        "web/1/manifest.json: expected the same version as in this folder, found a different one"
        in pulled.broken["web"]
    )
    assert before == tree(here / "web" / "1")


def test_somebody_elses_promotion_is_not_overwritten(
    origin: Registry, store: RemoteStore, tmp_path: Path
) -> None:
    other = Registry(shutil.copytree(origin.models_dir, tmp_path / "other"))
    ranker = example_ranker(seed=5)
    other.publish("web", ranker, provenance(ranker))
    other.promote("web", 5)
    push(store, other, "web")

    with pytest.raises(PublishFailed, match="found that champion is version 5; pull first, or use --force"):
        push(store, origin, "web")
    forced = push(store, origin, "web", force=True)

    assert 1 == forced.aliases["champion"]


def test_a_store_that_is_away_keeps_everything_here(
    origin: Registry, store: RemoteStore, there: Path, here: Path, http_url: str
) -> None:
    push(store, origin, "web")
    mirror = Mirror(RemoteStore(http_url), here)
    mirror.pull()
    when = seen(here)
    there.rename(there.with_name("gone"))

    with pytest.raises(StoreUnavailable, match="expected a folder of models"):
        mirror.pull()
    note = read_note(here)
    there.with_name("gone").rename(there)
    mirror.pull()
    again = read_note(here)

    assert note is not None
    assert note.error is not None
    assert note.error.startswith(http_url)
    assert again is not None
    assert again.error is None
    assert when != seen(here)
    assert {"champion": 1, "challenger": 2} == Registry(here).aliases("web")


def test_an_error_of_the_server_is_said_and_not_taken_for_nothing(here: Path) -> None:
    class Failing(Quiet):
        def do_GET(self) -> None:
            self.send_error(503)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        store = RemoteStore(f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(StoreUnavailable, match="503"):
            Mirror(store, here).pull()
        with pytest.raises(StoreUnavailable, match="503"):
            Mirror(store, here).pull(["web"])
        server.shutdown()
        thread.join()


def test_signatures_come_along_and_are_renewed(origin: Registry, store: RemoteStore, here: Path) -> None:
    cryptography = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    first, second = (cryptography.Ed25519PrivateKey.generate() for _ in range(2))
    origin.sign(origin.resolve("web@1"), first)
    push(store, origin, "web")
    Mirror(store, here).pull()
    before = (here / "web" / "1.signatures.json").read_bytes()

    origin.sign(origin.resolve("web@1"), second)
    push(store, origin, "web")
    Mirror(store, here).pull()

    after = (here / "web" / "1.signatures.json").read_bytes()
    assert before != after
    assert (origin.models_dir / "web" / "1.signatures.json").read_bytes() == after


def test_broken_aliases_there_leave_those_here(
    origin: Registry, store: RemoteStore, there: Path, here: Path
) -> None:
    push(store, origin, "web")
    mirror = Mirror(store, here)
    mirror.pull()
    (there / "web" / "aliases.json").write_text("{")

    pulled = mirror.pull()

    assert pulled.broken["web"].startswith("web/aliases.json: expected")
    assert {"champion": 1, "challenger": 2} == Registry(here).aliases("web")


def test_a_folder_follows_one_url_only(
    origin: Registry, store: RemoteStore, here: Path, tmp_path: Path
) -> None:
    push(store, origin, "web")
    Mirror(store, here).pull()
    (tmp_path / "elsewhere").mkdir()

    with pytest.raises(InvalidConfiguration, match=r"found one of file://.*; choose another folder"):
        Mirror(RemoteStore(f"file://{tmp_path}/elsewhere"), here).pull()


def test_a_folder_that_got_nothing_from_one_url_follows_another(
    origin: Registry, store: RemoteStore, here: Path, tmp_path: Path
) -> None:
    push(store, origin, "web")
    with pytest.raises(StoreUnavailable, match="expected a folder of models"):
        Mirror(RemoteStore(f"file://{tmp_path}/mistyped"), here).pull()

    Mirror(store, here).pull()

    assert ["web"] == Registry(here).models()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("models", "expected a URL such as"),
        ("/srv/models", "expected a URL such as"),
        ("file://srv/models", "such as file:///srv/models"),
        ("https://user:secret@host/models", "without a password"),
        ("https://host/models?key=1", "a query or a fragment"),
        ("nothing://host/models", "expected a URL that fsspec can read"),
    ],
)
def test_a_url_that_cannot_be_one_is_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidConfiguration, match=said) as caught:
        RemoteStore(url)

    assert "secret" not in str(caught.value)


def test_names_that_are_asked_for_must_be_there(origin: Registry, store: RemoteStore, here: Path) -> None:
    push(store, origin, "web")

    with pytest.raises(ArtifactNotFound, match="/shop: expected a model with aliases, found none"):
        Mirror(store, here).pull(["shop"])


def test_a_model_without_an_alias_is_not_pushed(store: RemoteStore, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "unaliased")
    ranker = example_ranker()
    registry.publish("web", ranker, provenance(ranker))

    with pytest.raises(ArtifactNotFound, match="expected an alias to push"):
        push(store, registry, "web")


def test_a_damaged_version_is_not_pushed(origin: Registry, store: RemoteStore, there: Path) -> None:
    damage(origin.models_dir / "web" / "1" / "probe.scores.npy")

    with pytest.raises(ArtifactCorrupt, match=r"probe\.scores\.npy"):
        push(store, origin, "web")

    assert {} == tree(there)


def test_a_push_that_breaks_off_is_seen_by_nobody(
    origin: Registry, store: RemoteStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store, origin, "web")
    mirror = Mirror(store, here)
    mirror.pull()
    origin.promote("web", 3)

    def fail(*_: object) -> None:
        raise StoreUnavailable("no route")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write", fail)
        with pytest.raises(StoreUnavailable):
            push(store, origin, "web")
    between = mirror.pull()
    push(store, origin, "web")
    after = mirror.pull()

    assert Pulled() == between
    assert ["web@3"] == after.fetched


def _pull(url: str, here: Path, barrier: Any, results: Any) -> None:
    barrier.wait()
    with pulling(here):
        results.put(Mirror(RemoteStore(url), here).pull().fetched)


@pytest.mark.slow
def test_processes_that_pull_into_one_folder_fetch_each_version_once(
    origin: Registry, store: RemoteStore, here: Path
) -> None:
    push(store, origin, "web")
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    processes = [context.Process(target=_pull, args=(store.url, here, barrier, results)) for _ in range(3)]

    for process in processes:
        process.start()
    fetched = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()

    assert ["web@1", "web@2"] == sorted(version for one in fetched for version in one)
    assert [1, 2] == Registry(here).versions("web")


def test_one_process_keeps_a_folder_up_to_date_and_others_may_pull_meanwhile(
    origin: Registry, store: RemoteStore, here: Path
) -> None:
    push(store, origin, "web")

    with leading(here):
        with pytest.raises(BlockingIOError), leading(here):
            pass
        with pulling(here):
            assert 2 == len(Mirror(store, here).pull().fetched)


@pytest.mark.slow
def test_a_process_that_was_killed_while_it_fetched_leaves_nothing_that_is_read(
    origin: Registry, store: RemoteStore, here: Path
) -> None:
    """Its hidden folder is swept away by the next."""
    push(store, origin, "web")
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from localrank.registry.mirror import Mirror; from localrank.registry.remote import RemoteStore\n"
        "class Dying(RemoteStore):\n"
        "    def fetch(self, path, target, size, **seconds):\n"
        "        super().fetch(path, target, size, **seconds)\n"
        "        if path.startswith('web/2/'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "Mirror(Dying(sys.argv[1]), Path(sys.argv[2])).pull()\n"
    )

    dead = subprocess.run([sys.executable, "-c", script, store.url, str(here)], check=False)
    left = [path for path in (here / "web").glob(".staging-*") if path.is_dir()]
    versions = Registry(here).versions("web") if Registry(here).models() else []
    pulled = Mirror(store, here).pull()

    assert -9 == dead.returncode
    assert 1 == len(left)
    assert 2 not in versions
    assert "web@2" in pulled.fetched
    assert not left[0].exists()


def test_a_full_disk_is_said(
    origin: Registry, store: RemoteStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store, origin, "web")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(here / "web"))

    monkeypatch.setattr(mirrors, "replace_file", full)

    with pytest.raises(
        PublishFailed, match="here/web: cannot write the fetched files: No space left on device"
    ):
        Mirror(store, here).pull()


def test_the_commands_push_and_pull(
    origin: Registry, there: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{there}"
    pushed = main(["models", "push", url, "web", "--models-dir", str(origin.models_dir)])
    said = [capsys.readouterr().out]
    pulled = main(["models", "pull", url, "--models-dir", str(here)])
    said.append(capsys.readouterr().out)
    again = main(["models", "pull", url, "--models-dir", str(here), "--json"])
    answer = json.loads(capsys.readouterr().out)
    damage(there / "web" / "2" / "probe.scores.npy")
    shutil.rmtree(here)
    broken = main(["models", "pull", url, "--models-dir", str(here)])
    complaint = capsys.readouterr().err

    assert [0, 0, 0, 1] == [pushed, pulled, again, broken]
    assert "web: sent 1, 2; challenger is version 2, champion is version 1\n" == said[0]
    assert "web@champion is version 1\n" in said[1]
    assert {"fetched": [], "moved": [], "removed": [], "broken": {}} == answer
    assert complaint.startswith(
        f"localrank: {url}: web@challenger: version 2: web/2/probe.scores.npy: expected"
    )
    assert 1 == complaint.count("\n")


def test_the_commands_answer_in_json_too(
    origin: Registry, there: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{there}"
    main(["models", "push", url, "web", "--json", "--models-dir", str(origin.models_dir)])
    pushed = json.loads(capsys.readouterr().out)
    main(["models", "pull", url, "web", "--json", "--models-dir", str(here)])
    pulled = json.loads(capsys.readouterr().out)
    main(["models", "pull", url, "--models-dir", str(here)])

    assert [{"name": "web", "sent": [1, 2], "aliases": {"champion": 1, "challenger": 2}}] == pushed
    assert {
        "fetched": ["web@1", "web@2"],
        "moved": [
            {"name": "web", "alias": "challenger", "version": 2, "before": None},
            {"name": "web", "alias": "champion", "version": 1, "before": None},
        ],
        "removed": [],
        "broken": {},
    } == pulled | {"fetched": sorted(pulled["fetched"])}
    assert "nothing has changed\n" == capsys.readouterr().out


def test_of_several_broken_versions_the_first_is_named_and_the_others_are_counted(
    origin: Registry, store: RemoteStore, there: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push(store, origin, "web")
    for version in ("1", "2"):
        damage(there / "web" / version / "probe.scores.npy")

    code = main(["models", "pull", store.url, "--models-dir", str(here)])

    out, errors = capsys.readouterr()
    assert (1, "") == (code, out)
    assert errors.endswith(" (and 1 more)\n")


def test_what_was_fetched_is_on_the_disk_before_it_has_its_number(
    origin: Registry, store: RemoteStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store, origin, "web")
    acts = Acts(monkeypatch)

    Mirror(store, here).pull()

    for version in ("1", "2"):
        folder = here / "web" / version
        before, after = acts.around(folder)
        assert {path.name: path.stat().st_size for path in folder.iterdir()}.items() <= before.items()
        assert list(before)[-1].startswith(".staging-")
        assert here / "web" == after[0]


def test_a_folder_is_compared_thoroughly_again_after_five_minutes(
    origin: Registry, store: RemoteStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1000.0]
    monkeypatch.setattr("localrank.registry.mirror.time.monotonic", lambda: times[-1])
    push(store, origin, "web")
    mirror = Mirror(store, here)
    mirror.pull()
    shutil.rmtree(here / "web" / "1")

    times.append(1299.0)
    before = mirror.pull()
    times.append(1300.0)
    after = mirror.pull()

    assert ([], ["web@1"]) == (before.fetched, after.fetched)


def test_what_is_larger_than_it_may_be_is_refused(store: RemoteStore, there: Path) -> None:
    (there / "web").write_bytes(b"12345678")

    assert b"12345678" == store.read("web", 8)
    with pytest.raises(ArtifactCorrupt, match="web: expected at most 7 bytes, found more"):
        store.read("web", 7)
    assert None is store.read("none", 7)


def test_a_small_file_that_is_written_is_whole_before_it_is_seen(
    store: RemoteStore, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there / "web").mkdir()
    acts = Acts(monkeypatch)

    store.write("web/aliases.json", b"12345678")

    before, after = acts.around(there / "web" / "aliases.json")
    assert ([8], [there / "web"]) == (list(before.values()), after)
    assert ["aliases.json"] == [path.name for path in (there / "web").iterdir()]


def test_a_url_that_needs_another_library_says_which(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["models", "pull", "nothing://bucket/models", "--models-dir", str(here)])

    assert 2 == code
    assert "nothing://bucket/models: expected a URL that fsspec can read" in capsys.readouterr().err
