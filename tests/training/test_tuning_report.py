"""What tuning found, for people: shortfalls by hand, the file of the best settings, the dots and lines of the plot."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import PublishFailed
from localrank_training.comparisons import interval_of
from localrank_training.config import TrainingConfig
from localrank_training.toml_text import to_toml
from localrank_training.tuning import Setting, Tuned
from localrank_training.tuning_report import Shortfall, against_best, draw, named, write_best

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

RNG = np.random.default_rng(0)


def setting(mean: float, n_queries: int = 12, **choices: Any) -> Setting:
    """A setting with that mean over queries, and a global scorer .1 below."""
    local = RNG.random(n_queries)
    local += mean - local.mean()
    named = {name.replace("_", ".", 1): value for name, value in choices.items()}
    return Setting(named, TrainingConfig.from_tables({}), local, local - 0.1)


@pytest.fixture
def tuned() -> Tuned:
    return Tuned(
        (
            setting(0.7, learner_C=1.0, clustering_clusters=2),
            setting(0.6, learner_C=10.0, clustering_clusters=2),
            setting(0.4, learner_C=1.0, clustering_clusters=8),
            setting(0.2, learner_C=10.0, clustering_clusters=8),
        ),
        "ndcg@10",
        5,
    )


def test_shortfalls_are_differences_from_the_best_on_the_same_queries(tuned: Tuned) -> None:
    found = against_best(tuned)

    assert Shortfall(0.0, None) == found[0]
    assert [0.0, -0.1, -0.3, -0.5] == pytest.approx([one.difference for one in found])
    for one, compared in zip(tuned.settings[1:], found[1:], strict=True):
        assert interval_of(one.local - tuned.settings[0].local) == compared.interval is not None
    assert found[1].to_json()["difference"] == found[1].difference
    assert {"difference": 0.0, "interval": None} == found[0].to_json()


def test_a_setting_is_named_by_its_choices_without_their_tables() -> None:
    assert "C = 1.0, clusters = 2" == named(setting(0.5, learner_C=1.0, clustering_clusters=2))
    assert "as configured" == named(setting(0.5))


def test_the_best_settings_are_a_configuration_with_their_figures(tuned: Tuned, tmp_path: Path) -> None:
    write_best(tuned, tmp_path / "best.toml")
    other = TrainingConfig.from_tables({"learner": {"method": "linear"}})
    write_best(tuned, tmp_path / "other.toml", other)

    written = (tmp_path / "best.toml").read_text()
    assert written.startswith(
        "# ndcg@10 0.7000 (its global scorer 0.6000) over 12 queries,\n"
        "# cross-validated in 5 folds; the best of 4 settings.\n"
    )
    assert to_toml(tuned.best.config.to_json()) == to_toml(tomllib.loads(written))
    assert other == TrainingConfig.from_tables(tomllib.loads((tmp_path / "other.toml").read_text()))


def test_a_file_that_cannot_be_written_is_named(tuned: Tuned, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "best.toml"

    with pytest.raises(PublishFailed) as found:
        write_best(tuned, path)

    assert f"{path}: cannot be written: No such file or directory" == str(found.value)


def drawn(tuned: Tuned, path: Path, monkeypatch: pytest.MonkeyPatch) -> Figure:
    from matplotlib import figure

    made: list[figure.Figure] = []
    written = figure.Figure.savefig

    def keep(self: figure.Figure, *places: Any, **settings: Any) -> None:
        made.append(self)
        written(self, *places, **settings)

    monkeypatch.setattr(figure.Figure, "savefig", keep)
    draw(tuned, path)
    (only,) = made
    return only


def test_every_setting_has_a_dot_and_every_value_its_mean(
    tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting that matters more comes first."""
    figure = drawn(tuned, tmp_path / "effects.png", monkeypatch)

    clusters, strength = figure.axes
    assert ["clustering.clusters", "learner.C"] == [panel.get_title() for panel in figure.axes]
    dots, line = (np.asarray(one.get_xydata()) for one in clusters.lines)
    np.testing.assert_allclose([[0, 0.7], [0, 0.6], [1, 0.4], [1, 0.2]], dots)
    np.testing.assert_allclose([[0, 0.65], [1, 0.3]], line)
    dots, line = (np.asarray(one.get_xydata()) for one in strength.lines)
    np.testing.assert_allclose([[0, 0.7], [1, 0.6], [0, 0.4], [1, 0.2]], dots)
    np.testing.assert_allclose([[0, 0.55], [1, 0.4]], line)
    assert ["1.0", "10.0"] == [one.get_text() for one in strength.get_xticklabels()]
    assert (-0.5, 1.5) == strength.get_xlim()
    assert "ndcg@10, cross-validated" == clusters.get_ylabel()
    assert clusters.get_shared_y_axes().joined(clusters, strength)
    assert [6.4, 3.4] == pytest.approx(figure.get_size_inches().tolist())
    assert (tmp_path / "effects.png").read_bytes().startswith(b"\x89PNG")


def test_a_setting_that_not_every_combination_has_is_drawn_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = Tuned((setting(0.7, learner_C=1.0), setting(0.5)), "map", 3)

    (panel,) = drawn(tuned, tmp_path / "effects.png", monkeypatch).axes

    np.testing.assert_allclose([[0, 0.7]], np.asarray(panel.lines[0].get_xydata()))


def test_without_choices_nothing_is_drawn(tmp_path: Path) -> None:
    draw(Tuned((setting(0.7),), "map", 3), tmp_path / "effects.png")

    assert not (tmp_path / "effects.png").exists()
