"""Which folders the processes of a service share, and what becomes of the files in them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_service.app import create_app
from localrank_service.process import runtime_folder
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from localrank_service.models.live import LiveModel

#: Another process of a service, until its standard input is closed.
_OTHER = """
import sys
from pathlib import Path
from localrank_service.process import runtime_folder
from localrank_service.process.settings import Settings
folder, port = Path(sys.argv[1]), int(sys.argv[2])
place = runtime_folder.join(folder, Settings(runtime_dir=folder, port=port))
print("in", flush=True)
sys.stdin.read()
"""


def contents(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_ino for path in folder.rglob("*")}


def other(folder: Path, port: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(folder), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "in\n" == process.stdout.readline()
    return process


def planted_key(folder: Path) -> None:
    (folder / "admin.key").write_text("a-key-that-somebody-knows\n")


def open_to_others(folder: Path) -> None:
    folder.chmod(0o750)


def file(folder: Path) -> None:
    folder.rmdir()
    folder.touch()


def link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def used(folder: Path) -> None:
    """Leave what a service leaves that was killed."""
    (folder / "service.lock").write_text("another")
    for name in ("worker-0.lock", "worker-0.note", "unloaded.note", "admin.key", ".admin.key-" + "0" * 16):
        (folder / name).write_text("left")
    for name in ("metrics/0.lock", "metrics/0.cells", "versions/.lock", "versions/demo@1/planes.npy"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("left")


def used_and_more(folder: Path) -> None:
    used(folder)
    (folder / "notes.txt").touch()


def used_and_more_below(folder: Path) -> None:
    used(folder)
    (folder / "versions" / "precious").mkdir()


def used_and_link(folder: Path) -> None:
    used(folder)
    (folder / "worker-1.lock").symlink_to(folder.with_name("elsewhere"))


def used_and_link_below(folder: Path) -> None:
    used(folder)
    (folder / "versions" / "web@1").symlink_to(folder.with_name("elsewhere"))


def hard_link(folder: Path) -> None:
    folder.with_name("precious").write_text("precious")
    (folder / "service.lock").hardlink_to(folder.with_name("precious"))


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (planted_key, "expected an empty folder, or only files of an earlier service, found 'admin.key'"),
        (open_to_others, "expected a folder that is closed to others (mode 0700), found mode 0750"),
        (file, "expected a folder, found a file"),
        (link, "expected a folder, found a link"),
        (used_and_more, "only files of an earlier service, found 'notes.txt'"),
        (used_and_more_below, "only files of an earlier service, found 'versions/precious'"),
        (used_and_link, "only files of an earlier service, found 'worker-1.lock'"),
        (used_and_link_below, "only files of an earlier service, found 'versions/web@1'"),
        (hard_link, "only files of an earlier service, found 'service.lock'"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_folder_that_is_not_the_services_own_is_refused_and_nothing_is_deleted(
    prepare: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    prepare(folder)
    before = contents(tmp_path)

    with pytest.raises(InvalidConfiguration) as refused:
        create_app(Settings(runtime_dir=folder), models=[])

    assert f"runtime folder {folder}: " in str(refused.value)
    assert said in str(refused.value)
    assert before == contents(tmp_path)


def test_below_a_mounted_folder_of_another_user_the_service_makes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    owner = os.geteuid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: owner + 1)
        with pytest.raises(InvalidConfiguration) as refused:
            create_app(Settings(runtime_dir=tmp_path), models=[])
    create_app(Settings(runtime_dir=tmp_path / "service"), models=[])

    assert str(refused.value) == (
        f"runtime folder {tmp_path}: expected a folder of this user ({owner + 1}), found one of user {owner}; name a "
        f"folder that is not there yet, such as {tmp_path / 'service'}, and the service makes it"
    )
    assert 0o700 == stat.S_IMODE((tmp_path / "service").stat().st_mode)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)

    with pytest.raises(InvalidConfiguration, match="expected a folder of this user"):
        runtime_folder.join(tmp_path, Settings(runtime_dir=tmp_path))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InvalidConfiguration, match="cannot be used: Not a directory"):
        runtime_folder.join(tmp_path / "file" / "run", Settings())


def test_the_first_process_removes_what_an_earlier_service_left(
    tmp_path: Path, tiny_model: LiveModel
) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    used(folder)
    before = (folder / "admin.key").read_text()

    app = create_app(Settings(runtime_dir=folder), models=[tiny_model])

    assert app.state.service.keys.is_admin({"headers": [(b"x-api-key", _key(folder))]})
    assert before != (folder / "admin.key").read_text()
    assert {"service.lock", "admin.key", "metrics"} == {path.name for path in folder.iterdir()}


def _key(folder: Path) -> bytes:
    return (folder / "admin.key").read_bytes().strip()


def test_a_second_service_is_refused_and_further_processes_of_the_first_join_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    processes = [other(folder, 8001), other(folder, 8001)]
    try:
        (folder / "admin.key").touch()
        processes.append(other(folder, 8001))
        joined = (folder / "admin.key").exists()
        with pytest.raises(InvalidConfiguration) as refused:
            runtime_folder.join(folder, Settings(runtime_dir=folder, port=8002))
    finally:
        for process in processes:
            process.communicate()
    later = runtime_folder.join(folder, Settings(runtime_dir=folder, port=8002))

    assert joined
    assert f"runtime folder {folder}: expected a folder that no other service uses, found one in use" == str(
        refused.value
    )
    assert later is not None
    assert [folder / "service.lock"] == list(folder.iterdir())


@pytest.mark.anyio
async def test_a_service_can_start_where_another_one_has_been(
    connect: Any, loaded: Callable[..., Awaitable[None]], models_dir: Path, tmp_path: Path
) -> None:
    """Everything that a service writes is known as its own."""
    folder = tmp_path / "run"
    settings = Settings(
        runtime_dir=folder,
        models_dir=models_dir,
        experiments_file=tmp_path / "experiments.json",
        impression_log=1.0,
        impression_log_dir=tmp_path / "impressions",
        model="demo",
    )
    async with connect(settings) as client:
        await loaded(client)
        key = {"x-api-key": _key(folder).decode()}
        split = {"kind": "split", "model": "demo", "candidate": "demo@2"}
        put = await client.put("/v1/experiments/one", json=split, headers=key)
        ranked = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], "session_id": "s"})
        unloaded = await client.post("/v2/repository/models/web/unload", json={}, headers=key)
    written = {path.name for path in folder.iterdir()}

    place = runtime_folder.join(folder, Settings(runtime_dir=folder))

    assert [200] * 3 == [put.status_code, ranked.status_code, unloaded.status_code]
    assert {"versions", "metrics", "worker-0.note", "experiments.note", "unloaded.note"} <= written
    assert [folder / "service.lock"] == list(folder.iterdir())
    del place


def test_folders_of_dead_services_are_swept_away_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours, dead, fresh, foreign = (runtime_folder.make() for _ in range(4))
    place = runtime_folder.join(ours, Settings())
    for folder in (dead, fresh):
        (folder / "service.lock").touch()
    old = time.time() - 3600
    for folder in (ours, dead, foreign):
        os.utime(folder, (old, old))

    runtime_folder.sweep()

    assert {ours, fresh, foreign} == set(tmp_path.iterdir())
    del place
