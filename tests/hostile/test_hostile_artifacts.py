"""One test for every way in which a folder can be wrong; each has a message of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import stat
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank import artifact
from localrank.errors import ArtifactCorrupt, ArtifactError, ArtifactIncompatible, ProbeMismatch
from tests.core.examples import example_ranker, provenance
from tests.hostile.folders import edit, put, relist, write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WEIGHTS = "scorers.weights.npy"
DIRECTIONS = "router.points.directions.npy"
EIGENVALUES = "router.points.eigenvalues.npy"
RANKS = "router.points.ranks.npy"
CLUSTERS = "router.clusters.npy"
PLANES = "router.tables.planes.npy"
OFFSETS = "router.tables.offsets.npy"
IDS = "router.tables.ids.npy"
LENGTHS = "probe.lengths.npy"
SCORES = "probe.scores.npy"
DOCUMENTS = "probe.documents.npy"
MANIFEST = "manifest.json"
MAPPED = "map.queries.npy"
PLACES = "map.coordinates.npy"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "web" / "1"
    ranker = example_ranker("lsh")
    artifact.save(folder, ranker, provenance(ranker))
    return folder


@pytest.fixture
def version(whole: Path, tmp_path: Path) -> Path:
    """A good version of three clusters, six features, two components and 24 training queries."""
    return shutil.copytree(whole, tmp_path / "web" / "1")


def in_turn(*changes: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(version: Path) -> None:
        for one in changes:
            one(version)

    return change


def content(name: str, make: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Give a file other bytes, and list its new size and digest."""

    def change(version: Path) -> None:
        (version / name).write_bytes(make((version / name).read_bytes()))
        relist(version, name)

    return change


def header(name: str, text: str) -> Callable[[Path], None]:
    """Give a file another header of the same length."""

    def make(old: bytes) -> bytes:
        start, stop = old.index(b"{"), old.index(b"\n")
        assert len(text) <= stop - start
        return old[:start] + text.ljust(stop - start).encode() + old[stop:]

    return content(name, make)


def listed(name: str, **members: Any) -> Callable[[Path], None]:
    return lambda version: edit(version, lambda manifest: manifest["files"][name].update(members))


def member(*path: Any, to: Any) -> Callable[[Path], None]:
    def change(manifest: Any) -> None:
        for key in path[:-1]:
            manifest = manifest[key]
        manifest[path[-1]] = to

    return lambda version: edit(version, change)


def without(*path: Any) -> Callable[[Path], None]:
    def change(manifest: Any) -> None:
        for key in path[:-1]:
            manifest = manifest[key]
        del manifest[path[-1]]

    return lambda version: edit(version, change)


def text(old: str, new: str) -> Callable[[Path], None]:
    def change(version: Path) -> None:
        whole = (version / MANIFEST).read_text()
        assert old in whole
        (version / MANIFEST).write_text(whole.replace(old, new, 1))

    return change


def item(name: str, position: int, value: Any) -> Callable[[Path], None]:
    def change(array: Any) -> Any:
        array.reshape(-1)[position] = value
        return array

    return lambda version: put(version, name, change)


def replaced_by(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(version: Path) -> None:
        (version / name).unlink()
        make(version / name)

    return change


def bound_socket(path: Path) -> None:
    # A socket's name may have a hundred bytes; the one of a temporary folder is often longer.
    here = os.open(path.parent, os.O_RDONLY)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def symbolic(name: str) -> Callable[[Path], None]:
    def change(version: Path) -> None:
        (version / name).rename(version.parent / "elsewhere")
        (version / name).symlink_to(version.parent / "elsewhere")

    return change


def renamed(old: str, new: str) -> Callable[[Path], None]:
    def change(version: Path) -> None:
        def rename(manifest: Any) -> None:
            manifest["files"][new] = manifest["files"].pop(old)

        edit(version, rename)

    return change


def extra_and_listed(version: Path) -> None:
    np.save(version / "more.npy", np.zeros(3))
    edit(
        version,
        lambda manifest: manifest["files"].update(
            {"more.npy": {"sha256": "0" * 64, "size": 1, "dtype": "float64", "shape": [3]}}
        ),
    )
    relist(version, "more.npy")


def nested(version: Path) -> None:
    (version / MANIFEST).write_text('{"format_version": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}")


WRONG: dict[str, tuple[Callable[[Path], object], type[ArtifactError], str]] = {
    # The listing.
    "a file is missing": (
        lambda version: (version / CLUSTERS).unlink(),
        ArtifactCorrupt,
        r"router\.clusters\.npy: expected a file that the manifest lists, found none",
    ),
    "a file too many": (
        lambda version: (version / "run.py").write_text("print()"),
        ArtifactCorrupt,
        r"run\.py: expected only files that the manifest lists, found one more",
    ),
    "a hidden file too many": (
        lambda version: (version / ".cache").write_text(""),
        ArtifactCorrupt,
        r"\.cache: expected only files that the manifest lists",
    ),
    "a folder too many": (
        lambda version: (version / "more").mkdir(),
        ArtifactCorrupt,
        r"more: expected only files that the manifest lists",
    ),
    "a file that the model does not use": (
        extra_and_listed,
        ArtifactCorrupt,
        r"manifest\.json: files: expected only files that the model uses, found 'more\.npy'",
    ),
    "a file that the model needs is not listed": (
        without("files", WEIGHTS),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected only files that the manifest lists",
    ),
    "a file that the model needs is neither there nor listed": (
        in_turn(without("files", WEIGHTS), lambda version: (version / WEIGHTS).unlink()),
        ArtifactCorrupt,
        r"manifest\.json: files: expected 'scorers\.weights\.npy', found none",
    ),
    "a path that leaves the folder": (
        renamed(WEIGHTS, "../scorers.weights.npy"),
        ArtifactCorrupt,
        r"manifest\.json: files: '\.\./scorers\.weights\.npy': expected a plain file name",
    ),
    "an absolute path": (
        renamed(WEIGHTS, "/etc/passwd"),
        ArtifactCorrupt,
        r"files: '/etc/passwd': expected a plain file name",
    ),
    "a name with a null byte": (
        renamed(WEIGHTS, "scorers.weights\0.npy"),
        ArtifactCorrupt,
        r"files: 'scorers\.weights\\x00\.npy': expected a plain file name",
    ),
    # What is not a plain file.
    "a symbolic link": (
        symbolic(WEIGHTS),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected a plain file, found a symbolic link",
    ),
    "a hard link": (
        lambda version: os.link(version / WEIGHTS, version.parent / "other"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected a file with one name, found a hard link of 2",
    ),
    "a pipe": (replaced_by(WEIGHTS, os.mkfifo), ArtifactCorrupt, r"expected a plain file, found a pipe"),
    "a socket": (
        replaced_by(WEIGHTS, bound_socket),
        ArtifactCorrupt,
        r"weights\.npy: expected a plain file, found a socket",
    ),
    "a folder for a file": (
        replaced_by(WEIGHTS, lambda path: path.mkdir()),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected a plain file, found a folder",
    ),
    "a manifest that is a pipe": (
        replaced_by(MANIFEST, os.mkfifo),
        ArtifactCorrupt,
        r"manifest\.json: expected a plain file, found a pipe",
    ),
    "a manifest that is a link": (
        symbolic(MANIFEST),
        ArtifactCorrupt,
        r"manifest\.json: expected a plain file, found a symbolic link",
    ),
    # Bytes.
    "a truncated file": (
        lambda version: os.truncate(version / DIRECTIONS, 1000),
        ArtifactCorrupt,
        r"router\.points\.directions\.npy: expected 1280 bytes, found 1000",
    ),
    "a longer file": (
        lambda version: os.truncate(version / DIRECTIONS, 1281),
        ArtifactCorrupt,
        r"router\.points\.directions\.npy: expected 1280 bytes, found 1281",
    ),
    "an empty file": (
        lambda version: os.truncate(version / IDS, 0),
        ArtifactCorrupt,
        r"router\.tables\.ids\.npy: expected 896 bytes, found 0",
    ),
    "an empty file that is listed as such": (
        content(IDS, lambda _: b""),
        ArtifactCorrupt,
        r"router\.tables\.ids\.npy: expected the .npy format, found a file that starts with b''",
    ),
    "another digest": (
        listed(WEIGHTS, sha256="0" * 64),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected SHA-256 0{64}, found [0-9a-f]{64}",
    ),
    # Headers.
    "a file that is no array": (
        content(WEIGHTS, lambda _: b"PK\3\4" + bytes(200)),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected the .npy format, found a file that starts with b'PK",
    ),
    "another dtype in the file": (
        header(WEIGHTS, "{'descr': '<i8', 'fortran_order': False, 'shape': (24,), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected dtype '<f8', found '<i8'",
    ),
    "big-endian numbers": (
        header(WEIGHTS, "{'descr': '>f8', 'fortran_order': False, 'shape': (24,), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected dtype '<f8', found '>f8'",
    ),
    "an array of objects": (
        header(WEIGHTS, "{'descr': '|O', 'fortran_order': False, 'shape': (24,), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected dtype '<f8', found '\|O'",
    ),
    "an array of objects that is listed as such": (
        listed(WEIGHTS, dtype="object"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected float64, found object",
    ),
    "a structured dtype": (
        header(WEIGHTS, "{'descr': [('a','<f8')], 'fortran_order': False, 'shape': (24,), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected the header of a plain array, found b\"\{'descr': \[\(",
    ),
    "another shape in the file": (
        header(WEIGHTS, "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 6), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected shape \(24,\), found \(4, 6\)",
    ),
    "Fortran order": (
        header(IDS, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 4, 24), }"),
        ArtifactCorrupt,
        r"router\.tables\.ids\.npy: expected C order, found Fortran order",
    ),
    "an absurd size in the header": (
        header(WEIGHTS, "{'descr': '<f8', 'fortran_order': False, 'shape': (2**62,), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected the header of a plain array, found .*\(2\*\*62",
    ),
    "an absurd size in header and listing": (
        in_turn(
            header(IDS, f"{{'descr': '<i4', 'fortran_order': False, 'shape': (2, 4, {2**59}), }}"),
            listed(IDS, shape=[2, 4, 2**59]),
        ),
        ArtifactCorrupt,
        r"router\.tables\.ids\.npy: expected shape \(2, 4, 24\), found \(2, 4, 576460752303423488\)",
    ),
    "probe scores that are not listed": (
        in_turn(without("files", SCORES), lambda version: (version / SCORES).unlink()),
        ArtifactCorrupt,
        r"files: expected 'probe\.scores\.npy', found none",
    ),
    "probe scores in rows": (
        lambda version: put(version, SCORES, lambda scores: scores.reshape(-1, 1)),
        ArtifactCorrupt,
        r"probe\.scores\.npy: expected shape \(0,\), found \(\d+, 1\)",
    ),
    "an absurd size that everything agrees on but the file": (
        in_turn(
            header(SCORES, f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**60},), }}"),
            listed(SCORES, shape=[2**60]),
            listed(DOCUMENTS, shape=[2**60, 6]),
        ),
        ArtifactCorrupt,
        r"probe\.scores\.npy: expected 9223372036854775936 bytes for shape \(1152921504606846976,\), found \d+",
    ),
    "a size that overflows": (
        header(IDS, f"{{'descr': '<i4', 'fortran_order': False, 'shape': (2, 4, {10**30}), }}"),
        ArtifactCorrupt,
        r"router\.tables\.ids\.npy: expected shape \(2, 4, 24\), found \(2, 4, 10{30}\)",
    ),
    "a negative length": (
        header(WEIGHTS, "{'descr': '<f8', 'fortran_order': False, 'shape': (-24,), }"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected the header of a plain array, found .*\(-24,\)",
    ),
    "a header that runs code": (
        header(WEIGHTS, "__import__('os').abort()"),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected the header of a plain array, found .*__import__",
    ),
    "another version of the array format": (
        content(WEIGHTS, lambda old: old.replace(b"NUMPY\1", b"NUMPY\2", 1)),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected version 1\.0 of the \.npy format, found 2\.0",
    ),
    # What the listing may say.
    "an unknown dtype": (
        listed(CLUSTERS, dtype="float16"),
        ArtifactCorrupt,
        r"expected int64 or .* found float16",
    ),
    "a listed dtype that does not fit": (
        listed(PLANES, dtype="float64"),
        ArtifactCorrupt,
        r"router\.tables\.planes\.npy: expected float32, found float64",
    ),
    "a listed shape that does not fit": (
        listed(PLANES, shape=[4, 3, 7]),
        ArtifactCorrupt,
        r"router\.tables\.planes\.npy: expected shape \(4, 3, 6\), found \(4, 3, 7\)",
    ),
    "a listed shape of another rank": (
        listed(PLANES, shape=[72]),
        ArtifactCorrupt,
        r"router\.tables\.planes\.npy: expected shape \(tables, bits, 6\), found \(72,\)",
    ),
    "a listed length that is no number": (
        listed(PLANES, shape=["4", 3, 6]),
        ArtifactCorrupt,
        r"planes\.npy': expected a shape of at most 8 lengths, found \['4', 3, 6\]",
    ),
    "a listed size that is no number": (
        listed(PLANES, size=-1),
        ArtifactCorrupt,
        r"planes\.npy': expected a size in bytes, found -1",
    ),
    "a listed digest that is none": (
        listed(PLANES, sha256="beef"),
        ArtifactCorrupt,
        r"planes\.npy': expected sha256 in 64 hexadecimal digits, found 'beef'",
    ),
    "an unknown member of a file": (
        listed(PLANES, offset=3),
        ArtifactCorrupt,
        r"planes\.npy': expected sha256, size, dtype and shape, found",
    ),
    # The map.
    "a map of queries out of range": (
        item(MAPPED, 3, 24),
        ArtifactCorrupt,
        r"map\.queries\.npy: expected 0 to 23, found 24 at position 3",
    ),
    "a map of a cluster out of range": (
        item("map.clusters.npy", 0, 3),
        ArtifactCorrupt,
        r"map\.clusters\.npy: expected 0 to 2, found 3 at position 0",
    ),
    "a map with a place that is no number": (
        item(PLACES, 5, np.nan),
        ArtifactCorrupt,
        r"map\.coordinates\.npy: expected finite numbers, found nan at position 5",
    ),
    "a map in three dimensions": (
        lambda version: put(version, PLACES, lambda places: places[:, [0, 1, 1]]),
        ArtifactCorrupt,
        r"map\.coordinates\.npy: expected shape \(12, 2\), found \(12, 3\)",
    ),
    "a map with a place too few": (
        lambda version: put(version, PLACES, lambda places: places[1:]),
        ArtifactCorrupt,
        r"map\.coordinates\.npy: expected shape \(12, 2\), found \(11, 2\)",
    ),
    "a map of nothing": (
        lambda version: put(version, MAPPED, lambda queries: queries[:0]),
        ArtifactCorrupt,
        r"map\.queries\.npy: expected shape \(0\), found \(0,\)",
    ),
    "a map whose file is missing": (
        in_turn(without("files", PLACES), lambda version: (version / PLACES).unlink()),
        ArtifactCorrupt,
        r"files: expected 'map\.coordinates\.npy', found none",
    ),
    "files of a map that is not there": (
        without("map"),
        ArtifactCorrupt,
        r"files: expected only files that the model uses, found 'map\.clusters\.npy'",
    ),
    "a map of another kind": (
        member("map", "part", to="exact"),
        ArtifactCorrupt,
        r"manifest\.json: map: expected one of scaling, found 'exact'",
    ),
    "a map that is no object": (
        member("map", to=[]),
        ArtifactCorrupt,
        r"manifest\.json: map: expected an object, found \[\]",
    ),
    "a map with an unknown setting": (
        member("map", "fields", "projection", to="mercator"),
        ArtifactCorrupt,
        r"manifest\.json: map: expected no field 'projection' of 'scaling', found one",
    ),
    "a map without coordinates": (
        member("map", "fields", "coordinates", to=None),
        ArtifactCorrupt,
        r"manifest\.json: map: expected a setting for 'coordinates'|expected an array for 'coordinates'",
    ),
    "a map by an unknown similarity": (
        member("map", "fields", "similarity", to="psychic"),
        ArtifactCorrupt,
        r"map: expected a 'scaling': map: expected similarity to be one of .*, found 'psychic'",
    ),
    "a map by a similarity of other points": (
        member("map", "fields", "similarity", to="euclidean"),
        ArtifactCorrupt,
        r"map: similarity: 'euclidean' compares VectorPoints, found Signatures",
    ),
    "a map that shows more than all": (
        member("map", "fields", "shown", to=1.5),
        ArtifactCorrupt,
        r"map: expected shown from 0 to 1, found 1\.5",
    ),
    "a map with points that are none": (
        member("map", "fields", "points", to=3),
        ArtifactCorrupt,
        r"manifest\.json: map: expected a part for 'points', found none",
    ),
    "a map that takes a file of the router": (
        member("map", "fields", "queries", to={"array": CLUSTERS}),
        ArtifactCorrupt,
        r"manifest\.json: map: expected a file named map\.…, found 'router\.clusters\.npy'",
    ),
    # The manifest.
    "no manifest": (
        lambda version: (version / MANIFEST).unlink(),
        ArtifactCorrupt,
        r"manifest\.json: expected a file, found none",
    ),
    "an empty manifest": (
        lambda version: (version / MANIFEST).write_bytes(b" \n"),
        ArtifactCorrupt,
        r"manifest\.json: expected a JSON object, found an empty file",
    ),
    "a truncated manifest": (
        lambda version: os.truncate(version / MANIFEST, 3000),
        ArtifactCorrupt,
        r"manifest\.json: expected JSON: ",
    ),
    "a manifest that is not UTF-8": (
        lambda version: (version / MANIFEST).write_bytes(b'{"name": "\xe9"}'),
        ArtifactCorrupt,
        r"manifest\.json: expected UTF-8, found the byte 0xe9 at 10",
    ),
    "a manifest with a byte order mark": (
        lambda version: (version / MANIFEST).write_bytes(b"\xef\xbb\xbf" + (version / MANIFEST).read_bytes()),
        ArtifactCorrupt,
        r"manifest\.json: expected JSON: Unexpected UTF-8 BOM",
    ),
    "a manifest that is no object": (
        lambda version: (version / MANIFEST).write_text("[1]"),
        ArtifactCorrupt,
        r"manifest\.json: expected a JSON object, found \[1\]",
    ),
    "a manifest too large": (
        lambda version: os.truncate(version / MANIFEST, 2**27),
        ArtifactCorrupt,
        r"manifest\.json: expected at most 67108864 bytes, found more",
    ),
    "a manifest nested too deep": (
        nested,
        ArtifactCorrupt,
        r"manifest\.json: expected members nested at most 64 deep, found more",
    ),
    "a manifest nested too deep to walk": (
        member("notes", to=json.loads("[" * 80 + "]" * 80)),
        ArtifactCorrupt,
        r"manifest\.json: expected members nested at most 64 deep, found more",
    ),
    "a member twice": (
        text('"version": 1,', '"version": 1, "version": 2,'),
        ArtifactCorrupt,
        r"manifest\.json: expected every member once, found 'version' twice",
    ),
    "a nested member twice": (
        text('"size": 8,', '"size": 8, "size": 8,'),
        ArtifactCorrupt,
        r"manifest\.json: expected every member once, found 'size' twice",
    ),
    "a member missing": (without("source"), ArtifactCorrupt, r"expected the member 'source', found none"),
    "a member unknown": (member("sauce", to={}), ArtifactCorrupt, r"expected no member 'sauce', found one"),
    "a member of another type": (
        member("metrics", to=[]),
        ArtifactCorrupt,
        r"metrics: expected an object, found \[\]",
    ),
    "a NaN": (
        text('"adjusted_rand": 0.75', '"adjusted_rand": NaN'),
        ArtifactCorrupt,
        r"finite numbers, found NaN",
    ),
    "an infinity": (
        text('"adjusted_rand": 0.75', '"adjusted_rand": -Infinity'),
        ArtifactCorrupt,
        r"expected finite numbers, found -Infinity",
    ),
    "a number too large": (
        text('"adjusted_rand": 0.75', '"adjusted_rand": 1e999'),
        ArtifactCorrupt,
        r"expected finite numbers, found 1e999",
    ),
    "half a character": (
        text('"few queries"', '"\\ud800"'),
        ArtifactCorrupt,
        r"manifest\.json: expected JSON: 'utf-8' codec can't encode",
    ),
    "a manifest changed by hand": (
        text('"local": 0.5', '"local": 0.9'),
        ArtifactCorrupt,
        r"manifest\.json: expected SHA-256 [0-9a-f]{64}, found",
    ),
    "a manifest without digits": (
        lambda version: (version / MANIFEST).write_text(
            json.dumps({**json.loads((version / MANIFEST).read_bytes()), "sha256": ""})
        ),
        ArtifactCorrupt,
        r"manifest\.json: sha256: expected 64 hexadecimal digits, found ''",
    ),
    "a future format": (
        member("format_version", to=3),
        ArtifactIncompatible,
        r"manifest\.json: format_version: this LocalRank reads format 1, found 3",
    ),
    "a future format with other members": (
        lambda version: (version / MANIFEST).write_text('{"format_version": 7, "layers": []}'),
        ArtifactIncompatible,
        r"this LocalRank reads format 1, found 7",
    ),
    "a format that is no number": (
        member("format_version", to="1"),
        ArtifactCorrupt,
        r"format_version: expected an integer, found '1'",
    ),
    "a version that is none": (
        member("version", to=0),
        ArtifactCorrupt,
        r"version: expected 1 or more, found 0",
    ),
    # The contract.
    "another contract": (
        member("contract", "normalise", to="query_minmax"),
        ArtifactCorrupt,
        r"contract_hash: expected sha256:[0-9a-f]{64}, found 'sha256:",
    ),
    "a contract with one more member": (
        member("contract", "unit", to="m"),
        ArtifactCorrupt,
        r"contract: expected what FeatureContract writes, found something else",
    ),
    "a contract with two features of one name": (
        member("contract", "names", 1, to="f1"),
        ArtifactCorrupt,
        r"the contract of 6 features: two features have the same name",
    ),
    "a contract with a number for a name": (
        member("contract", "names", 1, to=2),
        ArtifactCorrupt,
        r"the contract of 6 features: the name or the policy of a feature is not a text",
    ),
    "a contract that divides by zero": (
        member("contract", "scale", 2, to=0.0),
        ArtifactCorrupt,
        r"the contract of 6 features: a scale is not positive",
    ),
    "a contract beyond float32": (
        member("contract", "fill", 2, to=1e300),
        ArtifactCorrupt,
        r"the contract of 6 features: a number is not finite",
    ),
    "a contract without quantiles": (
        without("contract", "quantiles"),
        ArtifactCorrupt,
        r"the contract cannot be read: KeyError\('quantiles'\)",
    ),
    # Representation and router.
    "no components": (
        member("representation", "fields", "components", to=0),
        ArtifactCorrupt,
        r"representation: expected 1 to 4096 components, found 0",
    ),
    "absurdly many components": (
        member("representation", "fields", "components", to=10**15),
        ArtifactCorrupt,
        r"representation: expected 1 to 4096 components, found 10{15}",
    ),
    "another number of components": (
        member("representation", "fields", "components", to=3),
        ArtifactCorrupt,
        r"router\.points\.directions\.npy: expected shape \(24, 3, 6\), found \(24, 2, 6\)",
    ),
    "a representation that is a router": (
        member("representation", to={"part": "global", "fields": {}}),
        ArtifactCorrupt,
        r"representation: expected one of none, pca, mean, .*, found 'global'",
    ),
    "a representation that makes other points": (
        member("representation", to={"part": "mean", "fields": {}}),
        ArtifactCorrupt,
        r"router: expected points of the representation 'mean' \(VectorPoints\), found Signatures",
    ),
    "a similarity of other points": (
        member("router", "fields", "similarity", to="euclidean"),
        ArtifactCorrupt,
        r"router: expected a 'lsh': similarity: 'euclidean' compares VectorPoints, found Signatures",
    ),
    "an unknown router": (
        member("router", "part", to="os.system"),
        ArtifactCorrupt,
        r"router: expected one of global, .*lsh.*, found 'os\.system'",
    ),
    "a router that is none": (
        member("router", to={"part": "pca", "fields": {"components": 2}}),
        ArtifactCorrupt,
        r"router: expected one of global, .*, found 'pca'",
    ),
    "a router without description": (
        member("router", to={}),
        ArtifactCorrupt,
        r"router: expected a part and its fields, found \{\}",
    ),
    "a router with an unknown field": (
        member("router", "fields", "shell", to="sh"),
        ArtifactCorrupt,
        r"router: expected no field 'shell' of 'lsh', found one",
    ),
    "a router without its tables": (
        without("router", "fields", "tables"),
        ArtifactCorrupt,
        r"router: expected the field 'tables' of 'lsh', found none",
    ),
    "a router with a number for an array": (
        member("router", "fields", "clusters", to=3),
        ArtifactCorrupt,
        r"router: expected an array for 'clusters', found none",
    ),
    "a router with another array": (
        member("router", "fields", "clusters", "array", to=RANKS),
        ArtifactCorrupt,
        r"router: expected a file for each array, found 'router\.points\.ranks\.npy' twice",
    ),
    "a router with an array of the probe": (
        member("router", "fields", "clusters", "array", to=LENGTHS),
        ArtifactCorrupt,
        r"router: expected a file named router\.…, found 'probe\.lengths\.npy'",
    ),
    "a router with a text for a number": (
        member("router", "fields", "rerank", to="7"),
        ArtifactCorrupt,
        r"router: expected int for 'rerank', found '7'",
    ),
    "an exemplar out of range": (
        member("router", "fields", "exemplars", to=[0, 1, 24]),
        ArtifactCorrupt,
        r"router: expected a 'lsh': routing: expected exemplars among 24 training queries, found \(0, 1, 24\)",
    ),
    "an unknown form of similarity": (
        member("router", "fields", "similarity", to="cosine"),
        ArtifactCorrupt,
        r"router: expected a 'lsh': .*cosine",
    ),
    "a cluster out of range": (
        item(CLUSTERS, 23, 3),
        ArtifactCorrupt,
        r"router\.clusters\.npy: expected 0 to 2, found 3 at position 23",
    ),
    "a negative cluster": (
        item(CLUSTERS, 0, -1),
        ArtifactCorrupt,
        r"router\.clusters\.npy: expected 0 to 2, found -1 at position 0",
    ),
    "an id out of range": (
        item(IDS, 100, 24),
        ArtifactCorrupt,
        r"router\.tables\.ids\.npy: expected 0 to 23, found 24 at position 100",
    ),
    "a rank above the number of components": (
        item(RANKS, 5, 3),
        ArtifactCorrupt,
        r"router\.points\.ranks\.npy: expected 0 to 2, found 3 at position 5",
    ),
    "offsets that fall": (
        lambda version: put(
            version, OFFSETS, lambda offsets: _with(offsets, (1, 2, 4), offsets[1, 2, 5] + 1)
        ),
        ArtifactCorrupt,
        r"router\.tables\.offsets\.npy: expected offsets that never fall, found \d+ at position 59",
    ),
    "offsets that do not start at zero": (
        item(OFFSETS, 9, 1),
        ArtifactCorrupt,
        r"router\.tables\.offsets\.npy: expected each row to start at 0, found 1 at position 9",
    ),
    "offsets that end beyond the ids": (
        item(OFFSETS, 8, 25),
        ArtifactCorrupt,
        r"router\.tables\.offsets\.npy: expected offsets of at most 24, found 25 at position 8",
    ),
    "another number of buckets": (
        lambda version: put(version, OFFSETS, lambda offsets: offsets[:, :, :-1]),
        ArtifactCorrupt,
        r"router\.tables\.offsets\.npy: expected shape \(2, 4, 9\), found \(2, 4, 8\)",
    ),
    "a direction that is not finite": (
        item(DIRECTIONS, 30, np.nan),
        ArtifactCorrupt,
        r"router\.points\.directions\.npy: expected finite numbers, found nan at position 30",
    ),
    "an eigenvalue that is not finite": (
        item(EIGENVALUES, 3, np.inf),
        ArtifactCorrupt,
        r"router\.points\.eigenvalues\.npy: expected finite numbers, found inf at position 3",
    ),
    "a plane that is not finite": (
        item(PLANES, 0, -np.inf),
        ArtifactCorrupt,
        r"router\.tables\.planes\.npy: expected finite numbers, found -inf at position 0",
    ),
    "no training queries": (
        lambda version: put(version, DIRECTIONS, lambda directions: directions[:0]),
        ArtifactCorrupt,
        r"router\.points\.directions\.npy: expected shape .*, found \(0, 2, 6\)",
    ),
    # Scorers.
    "fewer scorers than clusters": (
        member("scorers", "clusters", to=[0, 0]),
        ArtifactCorrupt,
        r"scorers: expected one for each of 3 clusters, found 2",
    ),
    "fewer clusters than scorers": (
        without("clusters", 2),
        ArtifactCorrupt,
        r"scorers: expected one for each of 2 clusters, found 3",
    ),
    "fewer weights than scorers": (
        lambda version: put(version, WEIGHTS, lambda weights: weights[:-1]),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected shape \(24,\), found \(23,\)",
    ),
    "a weight that is not finite": (
        item(WEIGHTS, 3, np.nan),
        ArtifactCorrupt,
        r"scorers\.weights\.npy: expected finite numbers, found nan at position 3",
    ),
    "an unknown kind of scorer": (
        member("scorers", "forms", 0, "kind", to="pickle"),
        ArtifactCorrupt,
        r"scorers: form 0: expected a kind of .*linear.*, found 'pickle'",
    ),
    "a scorer with other settings": (
        member("scorers", "forms", 0, "settings", to={"blocks": "raw", "intercept": 1}),
        ArtifactCorrupt,
        r"scorers: form 0: expected the settings of 'linear' \(blocks\), found blocks, intercept",
    ),
    "a scorer that is made of itself": (
        member("scorers", "forms", 0, "members", to=[0]),
        ArtifactCorrupt,
        r"scorers: form 0: expected members among the forms and the shared scorers before it, found \[0\]",
    ),
    "scorers that unfold without end": (
        lambda version: edit(version, _unfolding),
        ArtifactCorrupt,
        r"scorers: expected at most 2000000, nested at most 32 deep, found \d+",
    ),
    "a form that is not there": (
        member("scorers", "global", to=9),
        ArtifactCorrupt,
        r"scorers: expected one of \d forms or 0 shared scorers, found 9",
    ),
    "an array of a scorer in a strange role": (
        member("scorers", "forms", 0, "arrays", to={"../weights": ["float64", [6]]}),
        ArtifactCorrupt,
        r"form 0: \.\./weights: expected a role in lower case",
    ),
    # The probe.
    "no probe": (member("probe", to=[]), ArtifactCorrupt, r"probe: expected at least one query, found none"),
    "another score in the probe": (
        lambda version: put(version, SCORES, lambda scores: _with(scores, 4, scores[4] + 1e-3)),
        ProbeMismatch,
        r"probe: query \d: expected the score .* for document \d, found",
    ),
    "another route in the probe": (
        member("probe", 1, "cluster", to=2),
        ProbeMismatch,
        r"probe: query 1: expected lsh to cluster 2, found lsh to cluster 0",
    ),
    "scorers that changed places": (
        lambda version: put(version, WEIGHTS, lambda weights: np.roll(weights, 6)),
        ProbeMismatch,
        r"probe: query 0: expected the score",
    ),
    "a score in the probe that is not finite": (
        item(SCORES, 4, np.nan),
        ArtifactCorrupt,
        r"probe\.scores\.npy: expected finite numbers, found nan at position 4",
    ),
    "lengths in the probe that do not add up": (
        lambda version: put(version, LENGTHS, lambda lengths: _with(lengths, 1, lengths[1] + 1)),
        ArtifactCorrupt,
        r"probe\.lengths\.npy: expected lengths that add up to \d+, found \d+",
    ),
    "a document in the probe that the contract refuses": (
        item(DOCUMENTS, 9, np.inf),
        ProbeMismatch,
        r"probe: query 1: expected a ranking, found InvalidDocuments",
    ),
    "a route in the probe without its members": (
        without("probe", 1, "cluster"),
        ArtifactCorrupt,
        r"probe: expected the route of query 1, found",
    ),
}


def _with(array: Any, position: Any, value: Any) -> Any:
    array[position] = value
    return array


def _unfolding(manifest: Any) -> None:
    forms = manifest["scorers"]["forms"]
    for _ in range(28):
        forms.append({**forms[0], "arrays": {}, "members": [len(forms) - 1] * 8})
    manifest["scorers"]["global"] = len(forms) - 1


@pytest.mark.parametrize("way", WRONG)
def test_a_wrong_folder_is_refused_with_a_message_of_its_own(version: Path, way: str) -> None:
    spoil, error, message = WRONG[way]
    spoil(version)

    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError) as refusal:
            artifact.load(version)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert error is type(refusal.value)
    assert str(refusal.value).startswith(f"{version}: ")
    assert re.search(message, str(refusal.value)), str(refusal.value)
    assert 1 == len(str(refusal.value).splitlines())
    # Nothing is allocated because a file says so: a manifest of the largest size is the most there is.
    assert most < (200e6 if "manifest too large" in way else 20e6)


def test_the_version_that_the_others_spoil_is_good(version: Path) -> None:
    assert 0.0 == artifact.load(version).deviation


def test_a_device_is_no_array(version: Path) -> None:
    try:
        (version / WEIGHTS).unlink()
        os.mknod(version / WEIGHTS, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")

    with pytest.raises(ArtifactCorrupt, match=r"weights\.npy: expected a plain file, found a device"):
        artifact.load(version)


def test_a_version_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("")

    with pytest.raises(ArtifactCorrupt, match=r"/1: cannot open the folder of a version: Not a directory"):
        artifact.load(tmp_path / "1")


def test_a_file_that_may_not_be_read_is_named(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is played."""
    real = os.open

    def refuse(path: Any, *arguments: Any, **named: Any) -> int:
        if path == WEIGHTS:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(
        ArtifactCorrupt, match=r"scorers\.weights\.npy: expected a plain file, found Permission denied"
    ):
        artifact.load(version)


def bits(count: int, size: int) -> list[int]:
    """Return bits of a file: the first, the last, and as many at random."""
    random = np.random.default_rng(size)
    return [0, size * 8 - 1, *(int(bit) for bit in random.integers(0, size * 8, count))]


def flip_each(version: Path, count: int) -> None:
    for path in sorted(version.iterdir()):
        content = bytearray(path.read_bytes())
        for bit in bits(count, len(content)):
            content[bit // 8] ^= 1 << bit % 8
            path.write_bytes(content)
            with pytest.raises(ArtifactError) as refusal:
                artifact.load(version)
            assert path.name in str(refusal.value), (path.name, bit)
            content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
    artifact.load(version)


def test_a_flipped_bit_is_found_in_every_file(version: Path) -> None:
    flip_each(version, 12)


@pytest.mark.soak
def test_any_flipped_bit_is_found_in_every_file(version: Path) -> None:
    flip_each(version, 4000)


def test_a_manifest_written_another_way_is_the_same_manifest(version: Path) -> None:
    """White space is nobody's business; the members are."""
    manifest = json.loads((version / MANIFEST).read_bytes())

    write_manifest(version, manifest)

    assert manifest.keys() == artifact.load(version).manifest.raw.keys()


@pytest.mark.parametrize("strategy", ["centroid", "classifier", "fusion"])
def test_a_router_of_vectors_beside_a_representation_that_makes_none_is_refused(
    tmp_path: Path, strategy: str
) -> None:
    directory = tmp_path / "web" / "1"
    ranker = example_ranker(strategy)
    artifact.save(directory, ranker, provenance(ranker))
    edit(
        directory,
        lambda manifest: manifest.update(representation={"part": "pca", "fields": {"components": 2}}),
    )

    with pytest.raises(ArtifactCorrupt, match=r"router: expected .*'pca' \(Signatures\)"):
        artifact.load(directory)


@pytest.mark.parametrize(
    ("strategy", "name", "value", "message"),
    [
        ("classifier", "router.weights.npy", np.inf, "expected finite numbers"),
        ("fusion", "router.intercepts.npy", 1e300, "expected -1e\\+100 to 1e\\+100"),
        ("centroid", "router.centroids.values.npy", np.nan, "expected finite numbers"),
        ("overlap", "router.neighbours.npy", 24, "expected 0 to 23, found 24"),
        ("overlap", "router.neighbours.npy", -1, "expected 0 to 23, found -1"),
    ],
)
def test_a_number_that_a_router_cannot_use_is_refused(
    tmp_path: Path, strategy: str, name: str, value: float, message: str
) -> None:
    directory = tmp_path / "web" / "1"
    ranker = example_ranker(strategy)
    artifact.save(directory, ranker, provenance(ranker))

    def spoiled(array: Any) -> Any:
        array[(0,) * array.ndim] = value
        return array

    put(directory, name, spoiled)

    with pytest.raises(ArtifactCorrupt, match=message):
        artifact.load(directory)


@pytest.mark.parametrize(
    ("strategy", "field", "message"),
    [("fusion", "scores", "one of standard, raw"), ("exact", "member", "one of nearest, average, farthest")],
)
def test_a_setting_that_a_router_does_not_know_is_refused(
    tmp_path: Path, strategy: str, field: str, message: str
) -> None:
    directory = tmp_path / "web" / "1"
    ranker = example_ranker(strategy)
    artifact.save(directory, ranker, provenance(ranker))
    edit(directory, lambda manifest: manifest["router"]["fields"].update({field: "loud"}))

    with pytest.raises(ArtifactCorrupt, match=message):
        artifact.load(directory)
