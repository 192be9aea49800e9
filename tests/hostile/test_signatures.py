"""Signed versions: who must have signed, what the signature covers, and every way in which it can be wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from localrank import artifact
from localrank.__main__ import main
from localrank.artifact import signing
from localrank.artifact.signing import TrustedKeys, key_id, read_private_key, signatures_name
from localrank.errors import ArtifactCorrupt, ArtifactError, ArtifactUntrusted, InvalidConfiguration
from localrank.registry.versions import Registry
from localrank_service.app import create_app
from localrank_service.models.copies import Copies
from localrank_service.process.settings import Settings
from tests.core.examples import example_ranker, provenance
from tests.hostile.folders import edit

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATIONS = Path(__file__).parents[2] / "docs" / "operate" / "operations.md"


def private(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def private_pem(key: Any, password: bytes | None = None) -> bytes:
    encryption: Any = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return pem


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem


def another_note(manifest: dict[str, Any]) -> None:
    manifest["notes"] = ["another note"]


def document(algorithm: str = "ed25519", key: Any = "0" * 64, signature: Any = "A" * 86 + "==") -> str:
    return json.dumps({"signatures": [{"algorithm": algorithm, "key": key, "signature": signature}]})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("published")
    ranker = example_ranker("lsh")
    for _ in range(2):
        Registry(models).publish("web", ranker, provenance(ranker))
    Registry(models).promote("web", 1)
    return models


@pytest.fixture
def models(published: Path, tmp_path: Path) -> Path:
    """A model ``web`` of two versions without a signature."""
    return shutil.copytree(published, tmp_path / "models")


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """Two public keys, those of the seeds 1 and 2."""
    path = tmp_path / "trusted.pem"
    path.write_bytes(b"the team's keys\n" + public_pem(private(1)) + b"\n" + public_pem(private(2)))
    return path


def sign(models: Path, seed: int, version: int = 1) -> Path:
    """Sign a version; return the file with its signatures."""
    registry = Registry(models)
    registry.sign(registry.resolve(f"web@{version}"), private(seed))
    return models / "web" / f"{version}.signatures.json"


def test_a_signed_version_is_what_it_was_and_every_reader_takes_it(models: Path, trusted: Path) -> None:
    before = {path.name: path.read_bytes() for path in (models / "web" / "1").iterdir()}
    sign(models, 1)
    keys = TrustedKeys.read(trusted)

    for read in (artifact.load, artifact.verify):
        assert (
            read(models / "web" / "1", trusted=keys).manifest.raw == read(models / "web" / "1").manifest.raw
        )
    assert before == {path.name: path.read_bytes() for path in (models / "web" / "1").iterdir()}
    assert [1, 2] == Registry(models).versions("web")


@pytest.mark.parametrize("seed", [1, 2])
def test_each_of_the_trusted_keys_is_enough(seed: int, models: Path, trusted: Path) -> None:
    sign(models, 3)
    sign(models, seed)

    keys = TrustedKeys.read(trusted)
    artifact.load(models / "web" / "1", trusted=keys)
    manifest = (models / "web" / "1" / "manifest.json").read_bytes()
    assert key_id(private(seed).public_key()) == keys.check(models / "web" / "1", manifest)


def test_the_signature_is_ed25519_of_the_manifest_s_bytes(models: Path) -> None:
    path = sign(models, 1)

    [entry] = json.loads(path.read_text())["signatures"]

    private(1).public_key().verify(
        base64.b64decode(entry["signature"]), (models / "web" / "1" / "manifest.json").read_bytes()
    )
    assert ("ed25519", key_id(private(1).public_key())) == (entry["algorithm"], entry["key"])


def no_signature(models: Path) -> None:
    sign(models, 1).unlink()


def another_version_s_signature(models: Path) -> None:
    shutil.copy(sign(models, 1, version=2), models / "web" / "1.signatures.json")


def wrong_key(models: Path) -> None:
    sign(models, 3)


def wrong_key_under_a_trusted_name(models: Path) -> None:
    path = sign(models, 3)
    document = json.loads(path.read_text())
    document["signatures"][0]["key"] = key_id(private(1).public_key())
    path.write_text(json.dumps(document))


def altered_manifest(models: Path) -> None:
    sign(models, 1)
    edit(models / "web" / "1", another_note)


def manifest_with_more_space(models: Path) -> None:
    """The same JSON in other bytes."""
    sign(models, 1)
    path = models / "web" / "1" / "manifest.json"
    path.write_bytes(path.read_bytes() + b"\n")


def altered_and_relisted(models: Path) -> None:
    """An attacker changes weights and makes the manifest fit."""
    sign(models, 1)
    ranker = example_ranker("exact")
    shutil.rmtree(models / "web" / "1")
    artifact.save(models / "web" / "1", ranker, provenance(ranker))


def no_entry(models: Path) -> None:
    sign(models, 1).write_text('{"signatures": []}')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_signature, "1.signatures.json: expected a signature of a trusted key, found no such file"),
        (another_version_s_signature, "json, found one of other content by [0-9a-f]{16}"),
        (wrong_key, r"of a trusted key \([0-9a-f]{16}, [0-9a-f]{16}\), found signatures of [0-9a-f]{16}$"),
        (wrong_key_under_a_trusted_name, "json, found one of other content by"),
        (altered_manifest, "json, found one of other content by"),
        (manifest_with_more_space, "json, found one of other content by"),
        (altered_and_relisted, "json, found one of other content by"),
        (no_entry, "found signatures of none"),
    ],
)
def test_what_no_trusted_key_has_signed_is_refused(
    change: Callable[[Path], None], said: str, models: Path, trusted: Path
) -> None:
    change(models)
    keys = TrustedKeys.read(trusted)

    for read in (artifact.load, artifact.verify):
        with pytest.raises(ArtifactUntrusted, match=said):
            read(models / "web" / "1", trusted=keys)
    if change is not manifest_with_more_space:
        # Whoever asks for no signature finds nothing wrong with it.
        artifact.load(models / "web" / "1")


def test_an_altered_file_is_refused_by_its_digest(models: Path, trusted: Path) -> None:
    sign(models, 1)
    path = models / "web" / "1" / "scorers.weights.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)

    keys = TrustedKeys.read(trusted)
    with pytest.raises(ArtifactCorrupt, match=r"scorers\.weights\.npy"):
        artifact.load(models / "web" / "1", trusted=keys)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"signatures": {}}',
        '{"signatures": [], "more": 1}',
        '{"signatures": [1]}',
        document(key="00"),
        document(key="A" * 64),
        document(key=1),
        document(algorithm="none"),
        document(signature="A" * 84),
        document(signature="Ä" * 88),
        document(signature=1),
        json.dumps({"signatures": json.loads(document())["signatures"] * 2}),
        " " * 70_000,
    ],
)
def test_a_signatures_file_that_is_none_is_refused(content: str, models: Path, trusted: Path) -> None:
    sign(models, 1).write_text(content)

    keys = TrustedKeys.read(trusted)
    with pytest.raises(ArtifactCorrupt, match=r"1\.signatures\.json: expected"):
        artifact.load(models / "web" / "1", trusted=keys)


@pytest.mark.parametrize("way", ["link", "pipe", "folder", "hard link"])
def test_a_signatures_file_must_be_a_plain_file(
    way: str, models: Path, trusted: Path, tmp_path: Path
) -> None:
    import os

    path = sign(models, 1)
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    if way == "link":
        path.symlink_to(elsewhere)
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "folder":
        path.mkdir()
    else:
        path.hardlink_to(elsewhere)

    keys = TrustedKeys.read(trusted)
    with pytest.raises(
        ArtifactCorrupt, match=r"1\.signatures\.json: expected a (plain file|file with one name)"
    ):
        artifact.load(models / "web" / "1", trusted=keys)


def test_keys_are_read_for_each_version_so_that_they_can_be_exchanged(models: Path, trusted: Path) -> None:
    sign(models, 1)
    copies = Copies(None, trusted_keys=trusted)
    copies.read(models / "web" / "1")

    trusted.write_bytes(public_pem(private(3)))

    with pytest.raises(ArtifactUntrusted):
        copies.read(models / "web" / "1")
    trusted.unlink()
    with pytest.raises(InvalidConfiguration, match=r"trusted\.pem: cannot read keys: No such file"):
        copies.read(models / "web" / "1")


def test_what_does_not_verify_is_not_signed(models: Path) -> None:
    (models / "web" / "1" / "more.npy").touch()

    with pytest.raises(ArtifactCorrupt):
        sign(models, 1)
    assert not (models / "web" / "1.signatures.json").exists()


def test_what_changes_between_verifying_and_signing_is_not_signed(models: Path) -> None:
    def verify_and_change(folder: Path) -> artifact.Artifact:
        found = artifact.verify(folder)
        edit(folder, another_note)
        return found

    registry = Registry(models, verify=verify_and_change)

    with pytest.raises(ArtifactCorrupt, match="expected the version that was verified, found another"):
        registry.sign(registry.resolve("web@1"), private(1))


def test_pruning_takes_signatures_with_it(models: Path) -> None:
    sign(models, 1)
    sign(models, 1, version=2)

    Registry(models).prune("web", keep=1, force=True)

    names = {path.name for path in (models / "web").iterdir()}
    assert {"2", "2.signatures.json"} == names - {".lock", "aliases.json"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected public keys in PEM, found none"),
        (b"ssh-ed25519 AAAA", "expected public keys in PEM, found none"),
        (private_pem(private(1)), "expected public keys in PEM, found private key"),
        (public_pem(ec.generate_private_key(ec.SECP256R1())), "Ed25519 public keys, found another kind"),
        (public_pem(private(1)).replace(b"MCow", b"MCoA"), "found one that is damaged"),
    ],
)
def test_trusted_keys_are_public_keys_and_nothing_else(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_bytes(content)

    with pytest.raises(InvalidConfiguration, match=said):
        TrustedKeys.read(path)


@pytest.mark.parametrize(
    ("content", "password", "said"),
    [
        (b"", None, "in PEM, found something else$"),
        (public_pem(private(1)), None, "in PEM, found something else$"),
        (private_pem(ec.generate_private_key(ec.SECP256R1())), None, "found another kind of key"),
        (private_pem(private(1), b"right"), None, "found one that is encrypted"),
        (private_pem(private(1), b"right"), b"wrong", "found something else, or another password"),
        (private_pem(private(1)), b"needless", "found one that is not encrypted"),
    ],
)
def test_a_signing_key_is_an_ed25519_private_key(
    content: bytes, password: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)

    with pytest.raises(InvalidConfiguration, match=said):
        read_private_key(path, password)


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "find_spec", lambda _: None)

    for read in (TrustedKeys.read, read_private_key):
        with pytest.raises(InvalidConfiguration, match=r"pip install -e '.*\[sign\]'"):
            read(tmp_path / "keys.pem")


def test_the_command_signs_and_verifies(
    models: Path, trusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key.pem").write_bytes(private_pem(private(1), b"right"))
    (tmp_path / "password").write_text("right\n")
    key = ("--key", str(tmp_path / "key.pem"), "--password-file", str(tmp_path / "password"))
    where = ("--models-dir", str(models))
    required = ("--require-signature", str(trusted))

    before = main(["models", "verify", "web@1", *required, *where])
    signed = main(["models", "sign", "web@1", *key, *where])
    after = main(["models", "verify", "web@1", *required, *where])
    said = capsys.readouterr()

    assert (1, 0, 0) == (before, signed, after)
    assert f"web@1 is signed by the key {key_id(private(1).public_key())[:16]}" in said.out
    assert "expected a signature of a trusted key, found no such file" in said.err


def test_the_commands_of_the_page_do_what_it_says(models: Path, tmp_path: Path) -> None:
    page = OPERATIONS.read_text()
    [block] = [text for text in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "genpkey" in text]
    make, public, sign_it, verify_it, _serve = block.replace("demo", "web").strip().split("\n")
    shutil.copytree(models, tmp_path / "here" / "models")

    for command in (make, public):
        subprocess.run(["bash", "-ec", command], cwd=tmp_path / "here", check=True, capture_output=True)
    for command in (sign_it, verify_it):
        assert 0 == main(_arguments(command, tmp_path / "here"))

    # openssl agrees.
    [entry] = json.loads((tmp_path / "here/models/web/1.signatures.json").read_text())["signatures"]
    (tmp_path / "here" / "signature").write_bytes(base64.b64decode(entry["signature"]))
    check = "openssl pkeyutl -verify -rawin -pubin -inkey trusted.pem -sigfile signature -in models/web/1/manifest.json"
    subprocess.run(check.split(), cwd=tmp_path / "here", check=True, capture_output=True)


def _arguments(command: str, folder: Path) -> list[str]:
    words = command.split()[1:]
    files = {"signing.pem", "trusted.pem", "models"}
    return [words[0], *(str(folder / word) if word in files else word for word in words[1:])]


async def _statuses(models: Path, trusted: Path) -> list[tuple[int, str]]:
    """What a service that requires signatures answers: before, after a promotion of what is not signed, and once it is."""
    settings = Settings(
        models_dir=models,
        require_signature=trusted,
        admin_key="the-admin-key",
        poll_seconds=0.01,
        extra_versions=1,
    )
    app = create_app(settings)
    found = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://localhost",
            headers={"x-api-key": "the-admin-key"},
        ) as client,
    ):
        for _ in range(5000):
            if 200 == (await client.get("/startupz")).status_code:
                break
            await asyncio.sleep(0.002)
        ready = await client.get("/readyz")
        found.append((ready.status_code, str(ready.json())))
        promoted = await client.post("/v1/models/web/promote", json={"version": 2})
        found.append((promoted.status_code, promoted.json()["detail"]))
        named = await client.get("/v1/models/web@2")
        found.append((named.status_code, named.json()["detail"]))
        sign(models, 1, version=2)
        promoted = await client.post("/v1/models/web/promote", json={"version": 2})
        found.append((promoted.status_code, str(promoted.json())))
    return found


def test_a_service_loads_and_promotes_only_what_is_signed(models: Path, trusted: Path) -> None:
    sign(models, 1)

    ready, refused, named, promoted = asyncio.run(_statuses(models, trusted))

    assert (200, 200) == (ready[0], promoted[0])
    assert 409 == refused[0]
    assert 503 == named[0]
    assert "2.signatures.json: expected a signature of a trusted key, found no such file" in refused[1]
    assert "2.signatures.json: expected a signature of a trusted key, found no such file" in named[1]
    # Nobody is told where the models are.
    assert str(models) not in named[1]


def test_a_service_whose_champion_is_not_signed_is_not_ready(models: Path, trusted: Path) -> None:
    ready, *_, promoted = asyncio.run(_statuses(models, trusted))

    assert 503 == ready[0]
    assert "model 'web' is broken: version 1: web/1: 1.signatures.json: expected a signature" in ready[1]
    assert 200 == promoted[0]


def test_every_refusal_is_an_error_of_the_artifact() -> None:
    assert issubclass(ArtifactUntrusted, ArtifactError)
    assert "12.signatures.json" == signatures_name(Path("models/web/12"))
