"""Which components can be combined, and runs that try every pair of them: docs/use/combinations.md.

python -m tools.combinations > docs/use/combinations.md

The components are those that the settings and the registry of learners name; a new one is in all of this by itself. The
configuration check alone says what goes together (`localrank_training.settings.steps`).
"""

from __future__ import annotations

import itertools
import random
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from localrank.errors import InvalidConfiguration
from localrank.settings import settings_of
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.settings import LearnerSettings
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import (
    ClusteringSettings,
    RepresentationSettings,
    RoutingSettings,
    SimilaritySettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Combination(NamedTuple):
    """One component for each step."""

    representation: str
    similarity: str
    clustering: str
    clustered_by: str
    learner: str
    routing: str


#: What the steps are called on the page.
STEPS = {
    "representation": "`[representation] method`",
    "similarity": "`[similarity]`",
    "clustering": "`[clustering] method`",
    "clustered_by": "`[clustering] representation`",
    "learner": "`[learner] method`",
    "routing": "`[routing] method`",
}
#: Clusterings that decide the other steps by themselves.
_ALONE = ("none", "kind")
#: Candidates for each new row of a covering array; the one that covers most is taken.
_TRIED = 200


@cache
def components() -> dict[str, tuple[str, ...]]:
    """Return the components of each step by name; a similarity of several forms stands for each of them."""
    forms = _choices(SimilaritySettings, "form")
    return {
        "representation": _choices(RepresentationSettings, "method"),
        "similarity": tuple(
            name
            for method in _choices(SimilaritySettings, "method")
            for name in (forms if method == "pca_cosine" else (method,))
        ),
        "clustering": _choices(ClusteringSettings, "method"),
        "clustered_by": _choices(ClusteringSettings, "representation"),
        "learner": tuple(LEARNERS),
        "routing": _choices(RoutingSettings, "method"),
    }


def every() -> Iterator[Combination]:
    """Yield every combination, whether it makes sense or not."""
    return itertools.starmap(Combination, itertools.product(*components().values()))


def config_of(
    combination: Combination, learner: LearnerSettings | None = None, **clustering: Any
) -> TrainingConfig:
    """Return the configuration of a combination.

    Args:
        combination: one component for each step.
        learner: its settings; the defaults otherwise.
        clustering: further settings of this step.

    Raises:
        InvalidConfiguration: the components do not go together.
    """
    if combination.clustering == "kind":
        clustering = {"column": "f1", **clustering}
    return TrainingConfig(
        representation=RepresentationSettings(combination.representation),  # type: ignore[arg-type]
        similarity=_similarity(combination.similarity),
        clustering=ClusteringSettings(
            combination.clustering,  # type: ignore[arg-type]
            representation=combination.clustered_by,  # type: ignore[arg-type]
            **clustering,
        ),
        learner=learner or _learner(combination.learner),
        routing=RoutingSettings(combination.routing),  # type: ignore[arg-type]
    )


def accepted(combination: Combination) -> bool:
    """Tell whether the configuration check accepts a combination."""
    try:
        config_of(combination)
    except InvalidConfiguration:
        return False
    return True


@cache
def clustered() -> tuple[Combination, ...]:
    """Return the accepted combinations that have clusters, each with the first learner: any learner will do."""
    first = components()["learner"][0]
    return tuple(
        one for one in every() if one.learner == first and one.clustering not in _ALONE and accepted(one)
    )


def pairs_of(combination: Combination) -> frozenset[tuple[tuple[str, str], tuple[str, str]]]:
    """Return every two components of a combination, each with its step."""
    return frozenset(itertools.combinations(zip(Combination._fields, combination, strict=True), 2))


def covering(seed: int = 0) -> tuple[Combination, ...]:
    """Return combinations that are accepted and hold, together, every two components that go together."""
    rng = random.Random(seed)
    learners = components()["learner"]
    missing = set().union(
        *(pairs_of(one._replace(learner=learner)) for one in clustered() for learner in learners)
    )
    found = []
    while missing:
        wanted = min(missing)
        fitting = [one for one in clustered() if _holds(one, wanted)]
        tried = (
            one._replace(learner=learner)
            for one in rng.sample(fitting, min(_TRIED, len(fitting)))
            for learner in [dict(wanted).get("learner") or rng.choice(learners)]
        )
        best = max(tried, key=lambda one: len(pairs_of(one) & missing))
        missing -= pairs_of(best)
        found.append(best)
    return tuple(found)


def page() -> str:
    """Return the text of docs/use/combinations.md."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    learners = components()["learner"]
    whole = len(clustered()) * len(learners)
    yield _HEAD.format(whole=whole, runs=len(covering()))
    for row, column in itertools.combinations((step for step in Combination._fields if step != "learner"), 2):
        held = {(getattr(one, row), getattr(one, column)) for one in clustered()}
        columns = [name for name in components()[column] if any(name == other for _, other in held)]
        yield f"\n### {STEPS[row]} and {STEPS[column]}\n"
        yield f"| | {' | '.join(f'`{name}`' for name in columns)} |"
        yield f"|---|{'---|' * len(columns)}"
        for name in components()[row]:
            cells = ["yes" if (name, other) in held else "–" for other in columns]
            if "yes" in cells:
                yield f"| `{name}` | {' | '.join(cells)} |"


_HEAD = """\
# Combinations

*For people who configure training: which components go together.*

<!-- Made from the components and the configuration check: python -m tools.combinations > docs/use/combinations.md -->

A model is made of one component for each step. The configuration check says at once which components go together;
`localrank train` runs it first. {whole:,} combinations that have clusters are accepted. Every learner goes with all of them.

The tables say which two components occur together in an accepted combination. A – means that the two never go together,
whatever the other steps are. `[clustering] method = "none"`, one global model, goes with every learner and routes nothing
(`[routing] method = "global"`). `[clustering] method = "kind"`, a model for each value of the feature `column`, goes with every
learner too; the value names the cluster (`[routing] method = "kind"`).

The tests train, publish, verify, load and serve every pair in the tables, and every learner with every component. The served
rankings equal the offline rankings to the bit. {runs} runs cover all of these pairs
(`tests/end_to_end/test_combinations.py`): `make test-all` has a sample of them, `make soak` has all."""


def _choices(kind: type, name: str) -> tuple[str, ...]:
    (hint,) = (one.hint for one in settings_of(kind) if one.name == name)
    return get_args(hint)


@cache
def _similarity(name: str) -> SimilaritySettings:
    if name in _choices(SimilaritySettings, "form"):
        return SimilaritySettings("pca_cosine", name)  # type: ignore[arg-type]
    return SimilaritySettings(name)  # type: ignore[arg-type]


@cache
def _learner(name: str) -> LearnerSettings:
    return LearnerSettings(name)


def _holds(combination: Combination, pair: tuple[tuple[str, str], tuple[str, str]]) -> bool:
    return all(step == "learner" or getattr(combination, step) == name for step, name in pair)


if __name__ == "__main__":
    sys.stdout.write(page())
