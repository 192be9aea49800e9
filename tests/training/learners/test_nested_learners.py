"""A learner made of learners, as a configuration writes it; what each of them is asked for is checked at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from localrank.errors import InvalidConfiguration
from localrank.features.blocks import parse
from localrank.settings import setting
from localrank_training.learners import catalogue
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.role import Learner

# The settings of a learner are read from its annotations.
from localrank_training.learners.settings import LearnerSettings  # noqa: TC001
from localrank_training.run.choosing import choices_of
from localrank_training.settings.config import TrainingConfig, annotated

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.scorers import Scorer
    from localrank_training.learners.lesson import Lesson


@dataclass(frozen=True, slots=True)
class Team(Learner):
    """A learner of learners."""

    members: tuple[LearnerSettings, ...] = setting((), meaning="what it is made of")
    pull: float = setting(1.0, low=0, meaning="towards equal weights")
    blocks: str = setting("raw", check=parse, meaning="of features")

    method: ClassVar[str] = "team"

    def fit(self, lesson: Lesson) -> Scorer:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def team(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.LEARNERS.ours, "team", Team)


TEXT = """
[clustering]
clusters = 2

[learner]
method = "team"
pull = [0.1, 1]

[[learner.members]]
method = "ranksvm"
blocks = "[minmax, zscore * 0.25, rank]"
C = [0.1, 1]

[[learner.members]]
method = "extra_trees"
trees = 300
"""


def read(text: str, folder: Path) -> TrainingConfig:
    (folder / "run.toml").write_text(text)
    return TrainingConfig.read(folder / "run.toml")


def test_members_are_tables_in_a_list(tmp_path: Path) -> None:
    config = read(TEXT, tmp_path)

    first, _ = config.learner.candidates()
    assert isinstance(first, Team)
    svm, trees = first.members
    blocks = "[minmax, zscore * 0.25, rank]"
    assert [RankSvm(C=C, blocks=blocks) for C in (0.1, 1.0)] == svm.candidates()
    assert ("extra_trees", {"trees": 300}) == (trees.method, trees.settings)


def test_choices_of_members_are_theirs(tmp_path: Path) -> None:
    """The whole has two candidates, by its own list; the member's list is for the whole to choose from."""
    choices = choices_of(read(TEXT, tmp_path))

    assert ["pull = 0.1", "pull = 1.0"] == [str(choice) for choice in choices]
    for choice in choices:
        assert [choice.learner] == choice.config.learner.candidates()


def test_they_are_printed_and_read_back(tmp_path: Path) -> None:
    config = read(TEXT, tmp_path)

    printed = annotated(config)

    assert printed.count("[[learner.members]]") == 2
    again = read(printed, tmp_path)
    assert config.learner.candidates() == again.learner.candidates()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            'method = "ranksvn"',
            r"run.toml \[learner\]: members 1: no learner 'ranksvn'; did you mean 'ranksvm'",
        ),
        ('method = "ranksvm"\nc = 1', r"run.toml \[learner\]: members 1: unknown setting 'c'"),
        (
            'method = "ranksvm"\nC = [1, -1]',
            r"run.toml \[learner\]: members 1: C: expected more than 0, found -1",
        ),
        ('method = "ranksvm"\nblocks = "minmx"', r"members 1: blocks: .* did you mean 'minmax'"),
    ],
)
def test_a_member_that_is_wrong_is_named_by_its_place(wrong: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        read(f'[learner]\nmethod = "team"\n[[learner.members]]\n{wrong}\n', tmp_path)


@pytest.mark.parametrize("wrong", ["3", '["ranksvm"]'])
def test_members_that_are_no_tables_are_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"members.*: expected a (list of tables|table of settings)"
    ):
        read(f'[learner]\nmethod = "team"\nmembers = {wrong}\n', tmp_path)
