"""docs/use/configuration.md and the table in docs/operate/operations.md: every setting, from its definition.

`make settings` writes both.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.settings import plain, settings_of
from localrank_service.process.settings import PREFIX, Settings
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.settings.config import TrainingConfig, to_toml, value_text
from localrank_training.settings.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """\
# Configuration

*For people who configure training: every setting, its values and its default.*

<!-- Made from the definitions of the settings: make settings -->

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


DOCS = Path(__file__).parents[1] / "docs"

#: Where docs/operate/operations.md tells more about a setting of the service.
_MORE = {
    "models_url": "[A fleet](#a-fleet)",
    "require_signature": "[Signed models](#signed-models)",
    "api_key": "[Keys](#keys)",
    "cors_origins": "[Browsers](#browsers)",
    "max_concurrent_requests": "[Overload](#overload)",
    "overload_degrade": "[online.md](../use/online.md#deadlines)",
    "preload": "[Versions that requests may name](#versions-that-requests-may-name)",
    "experiments_file": "[online.md](../use/online.md#experiments)",
    "impression_log": "[online.md](../use/online.md#the-loop)",
    "otel": "[Traces](#traces)",
    "runtime_dir": "[The runtime folder](#the-runtime-folder)",
}


def pages() -> dict[Path, str]:
    """Return the texts of the pages."""
    operations = DOCS / "operate" / "operations.md"
    return {
        DOCS / "use" / "configuration.md": _training(),
        operations: re.sub(
            r"(?ms)^\| variable \|.*?\n(?!\|)", lambda _: _service(), operations.read_text(), count=1
        ),
    }


def _service() -> str:
    """Return the table of the service's settings."""
    rows = (
        (
            PREFIX + one.name.upper(),
            one.values,
            "" if one.default in (None, "") else str(plain(one.default)),
            one.meaning + (f" See {_MORE[one.name]}." if one.name in _MORE else ""),
        )
        for one in settings_of(Settings)
    )
    return "\n".join(_rows(rows, "variable")) + "\n"


def _training() -> str:
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
        if method not in LEARNERS.ours:
            yield f"A plug-in: `{kind.__module__}.{kind.__qualname__}`.\n"
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


def _rows(rows: Iterator[tuple[str, str, str, str]], head: str = "setting") -> Iterator[str]:
    yield f"| {head} | takes | default | meaning |"
    yield "|---|---|---|---|"
    for name, takes, default, meaning in rows:
        cells = (f"`{name}`", takes, f"`{default}`" if default else "", meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(value: Any) -> str:
    return "" if value in (None, ()) else value_text(plain(value))


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
