"""What tuning found, for people: the best settings as TOML, differences with intervals, a plot of what mattered."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from localrank.errors import PublishFailed
from localrank_training.comparisons import interval_of
from localrank_training.toml_text import to_toml

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.comparisons import Interval
    from localrank_training.config import TrainingConfig
    from localrank_training.tuning import Setting, Tuned


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The loss of a setting against the best one, on the same queries, with a 95 % interval.

    The best one was chosen among many on these queries, so its figure is too good. An interval that contains zero means
    that no difference was found. Other differences may still be partly chance. None: too few queries differ for an
    interval.
    """

    difference: float
    interval: Interval | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def against_best(tuned: Tuned) -> list[Shortfall]:
    """Compare every setting with the best one."""
    found = []
    for setting in tuned.settings:
        differences = setting.local - tuned.best.local
        found.append(Shortfall(float(differences.mean()), interval_of(differences)))
    return found


def named(setting: Setting) -> str:
    """Name a setting by its choices."""
    return (
        ", ".join(f"{name.split('.', 1)[1]} = {value}" for name, value in setting.choices.items())
        or "as configured"
    )


def write_best(tuned: Tuned, path: Path, config: TrainingConfig | None = None) -> None:
    """Write the best settings, or what was made of them, as a configuration for ``localrank train``."""
    best = tuned.best
    head = (
        f"# {tuned.metric} {best.mean:.4f} (its global scorer {best.global_.mean():.4f}) over {len(best.local)} queries,\n"
        f"# cross-validated in {tuned.n_folds} folds; the best of {len(tuned.settings)} settings.\n"
    )
    try:
        path.write_text(head + to_toml((config or best.config).to_json()))
    except OSError as error:
        raise PublishFailed(f"{path}: cannot be written: {error.strerror}") from None


def draw(tuned: Tuned, path: Path) -> None:
    """Draw the effect of each setting: every combination as a dot, the mean of each value as a line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    effects = tuned.effects()
    if not effects:
        return
    figure = Figure(figsize=(3.2 * len(effects), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(effects), sharey=True, squeeze=False)[0]
    for panel, effect in zip(panels, effects, strict=True):
        places = {json.dumps(value): place for place, value in enumerate(effect.values)}
        dots = [
            (places[json.dumps(setting.choices[effect.name])], setting.mean)
            for setting in tuned.settings
            if effect.name in setting.choices
        ]
        panel.plot(*zip(*dots, strict=True), "o", alpha=0.35, color="tab:blue")
        panel.plot(range(len(effect.values)), effect.means, "_-", color="tab:orange", markersize=14)
        panel.set_xticks(range(len(effect.values)), [str(value) for value in effect.values])
        panel.set_xlim(-0.5, len(effect.values) - 0.5)
        panel.set_title(effect.name, fontsize=10)
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel(f"{tuned.metric}, cross-validated")
    figure.savefig(path, dpi=120)
