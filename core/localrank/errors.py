"""What can go wrong, as a tree.

LocalRankError
├── InvalidDocuments          a query's documents break the feature contract: shape, names, missing, range
│   └── ContractMismatch      the caller's features, or its hash of the contract, are not this model's
├── ScoringFailed             a scorer gave a score that is not finite
├── ArtifactError
│   ├── ArtifactNotFound      no such model, version or alias
│   ├── ArtifactCorrupt       a file is missing, extra, truncated, or not what the manifest says
│   ├── ArtifactIncompatible  written in a format that this code does not read
│   ├── ArtifactUntrusted     whole or not, no trusted key has signed it
│   └── ProbeMismatch         whole, but it does not reproduce its own probe on this machine
├── StoreUnavailable          a folder of models at a URL cannot be read or written now
├── PublishFailed             the version could not be written; nothing was left behind
├── ExportRefused             a search engine could not compute the model
├── ExplanationRefused        the scores are no sums over features
├── InvalidConfiguration      a setting is unknown, of the wrong type or out of range
├── InvalidData               judged data cannot be read: names file, line and column
└── WorkersLost               a cluster cannot finish its work; nothing was published

A message names the thing, the expectation and the finding in one sentence. Nothing here knows of HTTP.

Suggests a name for a misspelled one; every message with a suggestion uses it. Shows a value as messages show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters of a value, and numbers of a list, that a message shows.
_MOST_SHOWN, _MOST_NUMBERS = 40, 4


class LocalRankError(Exception):
    """Anything this project raises on purpose."""


class InvalidDocuments(LocalRankError):
    """A query's documents break the feature contract.

    Attributes:
        document: position of the first wrong document, if one is known.
        feature: position of the first wrong feature, if one is known.
    """

    def __init__(self, message: str, *, document: int | None = None, feature: int | None = None) -> None:
        super().__init__(message)
        self.document = document
        self.feature = feature


class ContractMismatch(InvalidDocuments):
    """The caller named a contract that is not this model's, or features that lack one of the model's."""


class ScoringFailed(LocalRankError):
    """A scorer gave a score that is not finite."""


class ArtifactError(LocalRankError):
    """A published model cannot be used."""


class ArtifactNotFound(ArtifactError):
    """No such model, version or alias."""


class ArtifactCorrupt(ArtifactError):
    """The folder is not what its manifest says."""


class ArtifactIncompatible(ArtifactError):
    """The folder was written in a format that this code does not read."""


class ArtifactUntrusted(ArtifactError):
    """A signature is required, and no trusted key has signed the version as it is."""


class ProbeMismatch(ArtifactError):
    """The model is whole, but does not reproduce its own probe here."""


class StoreUnavailable(LocalRankError):
    """A folder of models at a URL cannot be read or written now."""


class PublishFailed(LocalRankError):
    """A version or an alias could not be written; what was there before still is."""


class ExportRefused(LocalRankError):
    """A search engine could not compute the model."""


class ExplanationRefused(LocalRankError):
    """A model's scores cannot be told as sums over its features."""


class InvalidConfiguration(LocalRankError):
    """A setting is unknown, of the wrong type or out of range."""


class InvalidData(LocalRankError):
    """Judged data cannot be read.

    Attributes:
        document: position of the document whose label is wrong, if it is that.
    """

    def __init__(self, message: str, *, document: int | None = None) -> None:
        super().__init__(message)
        self.document = document


class WorkersLost(LocalRankError):
    """A cluster cannot finish its work; nothing was published."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` if a known name is near, else nothing."""
    import difflib  # not before a name is wrong

    near = difflib.get_close_matches(str(name), known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def no_such(what: str, name: object, known: Iterable[str]) -> str:
    """Return the message for a name that does not exist: the nearest name, and all names."""
    known = list(known)
    return f"no {what} {name!r}{did_you_mean(name, known)} (expected: {', '.join(known) or 'none'})"


def shown(value: Any) -> str:
    """Return a value of JSON as a message shows it: its text if that is short, else what it is."""
    import json  # not before a value is wrong

    if isinstance(value, str | int | float | bool | None):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}…"
    if not isinstance(value, list):
        return "an object"
    # A list such as a shape is best described by its few numbers.
    if 0 < len(value) <= _MOST_NUMBERS and all(type(one) in {int, float} for one in value):
        text = json.dumps(value)
        return text if len(text) <= _MOST_SHOWN else "a list"
    return "a list"
