"""``manifest.json``: what a version is, where it comes from and what its other files hold.

Read strictly, because a file is untrusted input: no member twice, none unknown, none missing, no NaN, no absurd size.
The text carries its own SHA-256, so a flipped bit in a metric is found as surely as one in an array.

What does not belong here: the meaning of the arrays (`localrank.artifact.parts`, `localrank.artifact.scorers`).

Strict JSON, for files from somebody else: anything that two readers could read differently is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from localrank.arrays import one_line
from localrank.errors import ArtifactCorrupt, ArtifactIncompatible, PublishFailed
from localrank.features.contract import FeatureContract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: How deep members may nest.
_DEEPEST = 64
#: A text, also one that does not end: no search begins again within it.
_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_ONLY_BRACKETS = {code: None for code in range(128) if chr(code) not in "[]{}"}


def parse_object(content: bytes, name: str, largest: int) -> dict[str, Any]:
    """Read the bytes of a JSON object: no member twice, no number that is not finite, nothing absurd.

    Args:
        content: of the file.
        name: of the file, for messages.
        largest: how many bytes there may be.

    Raises:
        ArtifactCorrupt: it is anything else.
    """
    if len(content) > largest:
        raise ArtifactCorrupt(f"{name}: expected at most {largest} bytes, found more")
    if not content.strip():
        raise ArtifactCorrupt(f"{name}: expected a JSON object, found an empty file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactCorrupt(
            f"{name}: expected UTF-8, found the byte 0x{content[error.start]:02x} at {error.start}"
        ) from None

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(pairs)
        if len(unique) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise ArtifactCorrupt(f"{name}: expected every member once, found {briefly(twice)} twice")
        return unique

    def number(literal: str) -> float:
        value = float(literal)
        if not np.isfinite(value):
            raise ArtifactCorrupt(f"{name}: expected finite numbers, found {literal[:40]}")
        return value

    if _depth(text) > _DEEPEST:
        raise ArtifactCorrupt(f"{name}: expected members nested at most {_DEEPEST} deep, found more")
    try:
        parsed = json.loads(text, object_pairs_hook=members, parse_constant=number, parse_float=number)
        if _HALF_CHARACTER.search(text):
            # Half of a surrogate pair is no text that could be sent on.
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise ArtifactCorrupt(f"{name}: expected JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ArtifactCorrupt(f"{name}: expected a JSON object, found {briefly(parsed)}")
    return parsed


def briefly(value: Any) -> str:
    """Return a value for a message: on one line, not too long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _depth(text: str) -> int:
    """Return how deep brackets nest, those within texts aside."""
    brackets = np.frombuffer(
        _TEXT.sub("", text).translate(_ONLY_BRACKETS).encode("ascii", "ignore"), np.uint8
    )
    opening = np.isin(brackets, (ord("["), ord("{")))
    return int(np.where(opening, np.int8(1), np.int8(-1)).cumsum(dtype=np.int32).max(initial=0))


#: The format that this code reads and writes; docs/understand/artifact-format.md defines it.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
#: Bytes. A manifest of 100,000 clusters takes a quarter of it.
LARGEST_MANIFEST = 64 * 1024 * 1024
_BLANK = "0" * 64
_FILE_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,199}\.npy")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Members(NamedTuple):
    """The members of one kind of manifest.

    Attributes:
        types: of every member, in the order of the file.
        optional: members that are left out if they are empty.
    """

    types: Mapping[str, type]
    optional: frozenset[str] = frozenset()


#: Of a version of a model.
MEMBERS = Members(
    {
        "format_version": int,
        "sha256": str,
        "name": str,
        "version": int,
        "created": str,
        "source": dict,
        "contract": dict,
        "contract_hash": str,
        "representation": dict,
        "router": dict,
        "guard": dict,
        "map": dict,
        "scorers": dict,
        "clusters": list,
        "metrics": dict,
        "notes": list,
        "stability": dict,
        "probe": list,
        "files": dict,
    },
    frozenset({"guard", "map"}),
)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What the manifest says of one other file."""

    sha256: str
    size: int
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, name: str, members: Any) -> Self:
        """Check and read one entry of ``files``."""
        expect = f"{MANIFEST}: files: {name!r}"
        if not _FILE_NAME.fullmatch(name):
            raise ArtifactCorrupt(f"{expect}: expected a plain file name that ends in .npy")
        if not isinstance(members, dict) or set(members) != {"sha256", "size", "dtype", "shape"}:
            raise ArtifactCorrupt(
                f"{expect}: expected sha256, size, dtype and shape, found {briefly(members)}"
            )
        digest, size, dtype, shape = (members[key] for key in ("sha256", "size", "dtype", "shape"))
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ArtifactCorrupt(
                f"{expect}: expected sha256 in 64 hexadecimal digits, found {briefly(digest)}"
            )
        if not _is_count(size):
            raise ArtifactCorrupt(f"{expect}: expected a size in bytes, found {briefly(size)}")
        if not isinstance(dtype, str):
            raise ArtifactCorrupt(f"{expect}: expected a dtype, found {briefly(dtype)}")
        if not isinstance(shape, list) or len(shape) > 8 or not all(_is_count(length) for length in shape):
            raise ArtifactCorrupt(f"{expect}: expected a shape of at most 8 lengths, found {briefly(shape)}")
        return cls(digest, size, dtype, tuple(shape))

    def to_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256, "size": self.size, "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known of one cluster.

    Attributes:
        size: how many training queries it holds.
        exemplar: id of the query that stands for it.
        validation: its own figures on queries that were not trained on.
    """

    size: int
    exemplar: str | None = None
    validation: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, position: int, members: Any) -> Self:
        """Check and read one entry of ``clusters``."""
        if (
            not isinstance(members, dict)
            or set(members) != {"size", "exemplar", "validation"}
            or not _is_count(members["size"])
            or not isinstance(members["exemplar"], str | None)
            or not isinstance(members["validation"], dict)
        ):
            raise ArtifactCorrupt(
                f"{MANIFEST}: cluster {position}: expected size, exemplar and validation, found {briefly(members)}"
            )
        return cls(members["size"], members["exemplar"], members["validation"])

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "exemplar": self.exemplar, "validation": dict(self.validation or {})}


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """A manifest that has been checked.

    Attributes:
        sha256: of the manifest. The manifest holds the SHA-256 of every other file, so this one identifies the version.
        name, version: under which it was published.
        created: when, as the publisher wrote it.
        source: fingerprint of the data, whole training configuration, library versions, seeds.
        contract: what the documents must be.
        clusters: one per scorer.
        metrics: held-out figures against the global model.
        notes: what the publisher found worth saying, degenerate clusters above all.
        stability: how much the clusters move under resampling.
        files: every other file.
        raw: all members.
    """

    sha256: str
    name: str
    version: int
    created: str
    source: Mapping[str, Any]
    contract: FeatureContract
    clusters: tuple[Cluster, ...]
    metrics: Mapping[str, Any]
    notes: Sequence[Any]
    stability: Mapping[str, Any]
    files: Mapping[str, FileEntry]
    raw: Mapping[str, Any]

    __repr__ = one_line

    @property
    def size(self) -> int:
        """The bytes of all other files."""
        return sum(entry.size for entry in self.files.values())

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read and check the bytes of ``manifest.json``.

        Raises:
            ArtifactIncompatible: it is of a format that this code does not read.
            ArtifactCorrupt: anything else is wrong with it.
        """
        raw = unsealed(content, MEMBERS)
        try:
            contract = FeatureContract.from_json(raw["contract"])
        except ValueError as error:
            raise ArtifactCorrupt(f"{MANIFEST}: {error}") from None
        if contract.to_json() != raw["contract"]:
            raise ArtifactCorrupt(
                f"{MANIFEST}: contract: expected what FeatureContract writes, found something else"
            )
        if contract.digest != raw["contract_hash"]:
            raise ArtifactCorrupt(
                f"{MANIFEST}: contract_hash: expected {contract.digest}, found {briefly(raw['contract_hash'])}"
            )
        return cls(
            sha256=raw["sha256"],
            name=raw["name"],
            version=raw["version"],
            created=raw["created"],
            source=raw["source"],
            contract=contract,
            clusters=tuple(Cluster.from_json(i, members) for i, members in enumerate(raw["clusters"])),
            metrics=raw["metrics"],
            notes=raw["notes"],
            stability=raw["stability"],
            files=files_of(raw),
            raw=raw,
        )


def unsealed(content: bytes, kind: Members) -> dict[str, Any]:
    """Return the members of a manifest of this kind whose own SHA-256 is right.

    Raises:
        ArtifactIncompatible: it is of a format that this code does not read.
        ArtifactCorrupt: it is no manifest of this kind.
    """
    raw = parse_object(content, MANIFEST, LARGEST_MANIFEST)
    # The format is checked first, because the rest of another format is unknown.
    _check_format(raw)
    _check_members(raw, kind)
    if not _DIGEST.fullmatch(raw["sha256"]):
        raise ArtifactCorrupt(
            f"{MANIFEST}: sha256: expected 64 hexadecimal digits, found {briefly(raw['sha256'])}"
        )
    digest = _digest(content, raw["sha256"])
    if raw["sha256"] != digest:
        raise ArtifactCorrupt(f"{MANIFEST}: expected SHA-256 {raw['sha256']}, found {digest}")
    return raw


def files_of(raw: Mapping[str, Any]) -> dict[str, FileEntry]:
    """Return the files that a manifest lists."""
    return {name: FileEntry.from_json(name, members) for name, members in raw["files"].items()}


def compose(members: Mapping[str, Any], kind: Members = MEMBERS) -> bytes:
    """Return the bytes of a manifest with these members, ``format_version`` and ``sha256`` added.

    Raises:
        PublishFailed: a member cannot be written as JSON, such as a metric that is NaN.
    """
    whole = {"format_version": FORMAT_VERSION, "sha256": _BLANK, **members}
    try:
        text = _pretty({key: whole[key] for key in kind.types if key in whole}, 0)
        return seal(text + "\n")
    except (TypeError, ValueError) as error:
        raise PublishFailed(f"{MANIFEST}: expected values that JSON can hold: {error}") from None


def seal(text: str) -> bytes:
    """Return the manifest with its own SHA-256 put in, computed with zeros in its place."""
    found = re.search(r'"sha256": "([0-9a-f]{64})"', text)
    if found is None:
        raise ValueError("a manifest without a place for its SHA-256")
    digest = _digest(text.encode("utf-8"), found[1])
    return (text[: found.start(1)] + digest + text[found.end(1) :]).encode("utf-8")


def digest_in(content: bytes) -> str | None:
    """Return the SHA-256 that the bytes of any manifest hold, ``None`` if it is not theirs."""
    found = re.search(rb'"sha256": "([0-9a-f]{64})"', content)
    written = "" if found is None else found[1].decode()
    return written if written and _digest(content, written) == written else None


def _digest(content: bytes, written: str) -> str:
    return hashlib.sha256(content.replace(written.encode("utf-8"), _BLANK.encode(), 1)).hexdigest()


def _check_format(raw: Mapping[str, Any]) -> None:
    version = raw.get("format_version")
    if not _is_count(version):
        raise ArtifactCorrupt(f"{MANIFEST}: format_version: expected an integer, found {briefly(version)}")
    if version != FORMAT_VERSION:
        raise ArtifactIncompatible(
            f"{MANIFEST}: format_version: this LocalRank reads format {FORMAT_VERSION}, found {version}"
        )


def _check_members(raw: Mapping[str, Any], kind: Members) -> None:
    if missing := [name for name in kind.types if name not in raw and name not in kind.optional]:
        raise ArtifactCorrupt(f"{MANIFEST}: expected the member {missing[0]!r}, found none")
    if unknown := [name for name in raw if name not in kind.types]:
        raise ArtifactCorrupt(f"{MANIFEST}: expected no member {briefly(unknown[0])}, found one")
    for name in raw:
        expected = kind.types[name]
        if not isinstance(raw[name], expected) or isinstance(raw[name], bool):
            found = briefly(raw[name])
            raise ArtifactCorrupt(f"{MANIFEST}: {name}: expected {_KINDS[expected]}, found {found}")
    if raw["version"] < 1:
        raise ArtifactCorrupt(f"{MANIFEST}: version: expected 1 or more, found {raw['version']}")


_KINDS: dict[Any, str] = {int: "an integer", str: "a text", dict: "an object", list: "an array"}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _pretty(value: Any, depth: int) -> str:
    """Return JSON with one member per line, and what fits a line or holds only numbers on one."""
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    if len(flat) <= 100 or not isinstance(value, dict | list | tuple):
        return flat
    inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(value, dict):
        lines = [
            f"{json.dumps(str(key), ensure_ascii=False)}: {_pretty(member, depth + 1)}"
            for key, member in value.items()
        ]
        return "{" + inner + ("," + inner).join(lines) + outer + "}"
    if not any(isinstance(member, dict | list | tuple) for member in value):
        return flat
    return "[" + inner + ("," + inner).join(_pretty(member, depth + 1) for member in value) + outer + "]"


def _plain(value: Any) -> Any:
    """Turn what numpy and dataclass users hand in into JSON's own types."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {briefly(value)} is not one")
