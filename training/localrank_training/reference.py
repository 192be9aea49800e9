"""docs/use/configuration.md: every setting, from its definition.

python -m localrank_training.reference > docs/use/configuration.md
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from localrank_training.config import TrainingConfig
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.methods import METHODS
from localrank_training.settings import plain, settings_of
from localrank_training.toml_text import to_toml, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """\
# Configuration

*For people who configure training: every setting, its values and its default.*

<!-- Made from the definitions of the settings: python -m localrank_training.reference > docs/use/configuration.md -->

`localrank train` takes its settings from these places; each overrides those before it:

1. the defaults below;
2. `--method NAME`, one of the ready configurations at the end of this page; `auto` if none of `--method`, `--config` and
   `--learner` is given;
3. `--config FILE`, a TOML file with one table per step of the method;
4. `--learner NAME`, another learner with its default settings. Without `--method` and `--config` it trains one global model;
5. `--set table.key=value`, any number of times.

`--print-config` prints the settings of a run as a TOML file, every one with its meaning, and trains nothing. The manifest
of a published version holds the same settings, with every choice made.

In `[learner]`, a list in place of one value is a choice: `C = [0.1, 1, 10]`. `localrank train` tries every combination,
together with every number of clusters in `[clustering] candidates`. It uses the validation queries, or without them
cross-validation over the training queries. It warns if the best number lies at the edge of the tried numbers. For
`localrank tune`, a list is a choice in every table.

```toml
[contract]
missing = {bm25 = "median", "*" = "zero"}

[clustering]
candidates = [1, 2, 3, 5]

[learner]
method = "ranksvm"
C = [0.1, 1, 10, 100]
```
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_HEAD, *_tables(), *_learners(), *_methods()]) + "\n"


def _tables() -> Iterator[str]:
    config = TrainingConfig()
    top = [one for one in settings_of(TrainingConfig) if not is_dataclass(one.default)]
    yield "## Outside of any table\n"
    yield from _rows((one.name, one.values, value_text(one.default), one.meaning) for one in top)
    for table in fields(TrainingConfig):
        value = getattr(config, table.name)
        if is_dataclass(value) and table.name != "learner":
            yield f"\n## `[{table.name}]`\n"
            yield f"{_summary(type(value))}\n"
            yield from _rows(
                (one.name, one.values, _default(one.default), one.meaning) for one in settings_of(type(value))
            )


def _learners() -> Iterator[str]:
    yield "\n## `[learner]`\n"
    yield (
        f"How a scorer is learned. `method` is one of the learners below, `{TrainingConfig().learner.method}` by default. "
        "The other settings are the learner's own. A learner chooses from the lists "
        "under *tried by default* if the configuration leaves these settings out.\n"
    )
    for method, kind in LEARNERS.items():
        yield f"\n### `{method}`\n"
        yield f"{_summary(kind)}\n"
        if kind.grid:
            tried = "; ".join(f"`{name} = {value_text(values)}`" for name, values in kind.grid.items())
            yield f"Tried by default: {tried}.\n"
        yield from _rows(
            (one.name, one.values, _default(one.default), one.meaning) for one in settings_of(kind)
        )


def _methods() -> Iterator[str]:
    yield "\n## Ready configurations\n"
    yield "What `--method` sets; everything else has its default.\n"
    for name, tables in METHODS.items():
        yield f"\n### `--method {name}`\n"
        yield f"```toml\n{to_toml(tables)}```"


def _rows(rows: Iterator[tuple[str, str, str, str]]) -> Iterator[str]:
    yield "| setting | takes | default | meaning |"
    yield "|---|---|---|---|"
    for name, takes, default, meaning in rows:
        cells = (f"`{name}`", takes, f"`{default}`" if default else "", meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(value: Any) -> str:
    return "" if value in (None, ()) else value_text(plain(value))


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")


if __name__ == "__main__":
    sys.stdout.write(page())
