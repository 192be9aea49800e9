"""A scorer as a file would have it: taken apart, perhaps changed, checked and put together again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.artifact.scorers import StoredScorers
from localrank.features.contract import FeatureContract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array
    from localrank.scorers import Scorer


def rebuilt(
    kind: str,
    settings: Mapping[str, Any],
    arrays: Mapping[str, Array],
    members: Sequence[Scorer] = (),
    *,
    n_features: int,
) -> Scorer:
    """Return what a version that holds these would be read as; raise `ArtifactCorrupt` if it would be refused."""
    forms: list[dict[str, Any]] = []
    pieces: dict[tuple[str, str], list[Array]] = {}

    def add(
        kind: str, settings: Mapping[str, Any], arrays: Mapping[str, Array], members: Sequence[Scorer]
    ) -> int:
        for role, array in arrays.items():
            pieces.setdefault((role, array.dtype.name), []).append(array.ravel())
        numbers = [add(one.kind, one.settings(), one.arrays(), one.members()) for one in members]
        specs = {role: [array.dtype.name, list(array.shape)] for role, array in arrays.items()}
        forms.append({"kind": kind, "settings": settings, "arrays": specs, "members": numbers})
        return len(forms) - 1

    root = add(kind, settings, arrays, members)
    contract = FeatureContract.learn(np.zeros((1, n_features), np.float32), [1])
    stored = StoredScorers({"clusters": [], "global": root, "forms": forms}, contract)
    files = {name: np.concatenate(parts) for name, parts in zip(stored.files, pieces.values(), strict=True)}
    return stored.rebuild(files)[1]


def again(scorer: Scorer, n_features: int, **changed: Any) -> Scorer:
    """Return a scorer as it is read back, with other settings, arrays or members if they are given."""
    return rebuilt(
        scorer.kind,
        {**scorer.settings(), **changed.get("settings", {})},
        {**scorer.arrays(), **changed.get("arrays", {})},
        changed.get("members", scorer.members()),
        n_features=n_features,
    )
