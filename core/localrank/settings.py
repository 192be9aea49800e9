"""Turns what a user wrote (TOML, a flag, an environment variable) into a frozen dataclass of settings, or into one clear
error message.

A setting is defined once, as a field of its dataclass: its type is the annotation, a `Literal` lists its choices, and
`setting` adds bounds and meaning. The check, its messages, the flags, ``--print-config``, docs/use/configuration.md and
the table in docs/operate/operations.md all come from that. A field whose type is itself such a dataclass is a table in TOML. Nothing
is converted silently, except a whole number where a real one is wanted, and a text where a path is wanted.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from localrank.errors import InvalidConfiguration, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class Setting(NamedTuple):
    """The description of one field of a settings dataclass.

    Attributes:
        name: as written in a configuration.
        hint: its type.
        default: what it is when left out.
        bounds: ``low``, ``high`` (inclusive) and ``above`` (exclusive) of its numbers.
        meaning: for people.
    """

    name: str
    hint: Any
    default: Any
    bounds: Mapping[str, Any]
    meaning: str

    @property
    def values(self) -> str:
        """What it takes, for people."""
        limits = [
            f"{word} {self.bounds[bound]:.15g}"
            for bound, word in (("above", "above"), ("low", "at least"), ("high", "at most"))
            if self.bounds.get(bound) is not None
        ]
        return ", ".join([_describe(self.hint), *limits])

    @property
    def secret(self) -> bool:
        """Whether its value must not be shown."""
        return bool(self.bounds.get("secret"))


def setting(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    check: Callable[[Any], Any] | None = None,
    secret: bool = False,
    meaning: str = "",
) -> Any:
    """Declare one setting of a settings dataclass.

    Args:
        default: what it is when left out.
        low: inclusive lower bound of a number.
        high: inclusive upper bound of a number.
        above: exclusive lower bound of a number.
        check: raises `InvalidConfiguration`, or ValueError with what is expected, for values that the type allows but
            the owner of the setting does not.
        secret: its value is not shown, neither in messages nor in answers.
        meaning: one line for people.
    """
    metadata = {
        "low": low,
        "high": high,
        "above": above,
        "check": check,
        "secret": secret,
        "meaning": meaning,
    }
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


def settings_of(kind: type) -> tuple[Setting, ...]:
    """Return the settings of a dataclass."""
    hints = _hints(kind)
    return tuple(
        Setting(
            field.name,
            hints[field.name],
            _default_of(field),
            field.metadata,
            field.metadata.get("meaning", ""),
        )
        for field in dataclasses.fields(kind)
        if field.init
    )


def values_of(component: Any) -> dict[str, Any]:
    """Return every setting of a dataclass instance by name."""
    return {one.name: getattr(component, one.name) for one in settings_of(type(component))}


def checked(kind: type[T], values: object, where: str) -> T:
    """Make a settings dataclass from what was written.

    Args:
        kind: the dataclass. If it has a class method ``from_table``, that makes it.
        values: a table; or what was made of one already.
        where: how the place is called in messages, such as ``run.toml [clustering]``.

    Raises:
        InvalidConfiguration: it is no table, a name is unknown, a value has the wrong type or is out of range.
    """
    if isinstance(values, kind):
        return values
    if not isinstance(values, Mapping):
        raise InvalidConfiguration(f"{where}: expected a table of settings, found {values!r}")
    if from_table := getattr(kind, "from_table", None):
        made: T = from_table(values, where)
        return made
    return from_fields(kind, values, where)


def from_fields(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make a settings dataclass of its fields; for `checked` and for a ``from_table``."""
    known = {one.name: one for one in settings_of(kind)}
    for name, value in values.items():
        if name not in known:
            what = "table" if isinstance(value, Mapping) else "setting"
            raise InvalidConfiguration(
                f"{where}: unknown {what} {name!r}{alias(name, known) or did_you_mean(name, known)} "
                f"(expected: {', '.join(known) or 'none'})"
            )
    settled = {name: _fitting(value, known[name], where) for name, value in values.items()}
    try:
        return kind(**settled)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{where}: {error}") from None


def read_texts(kind: type[T], texts: Mapping[str, str], called: Callable[[str], str]) -> T:
    """Make a settings dataclass of the texts of flags or environment variables.

    Args:
        kind: the dataclass.
        texts: the text of each setting by the name of its field; a list has commas between its members.
        called: what the user calls a setting, such as ``--port``, given the name of its field.

    Raises:
        InvalidConfiguration: a name is unknown, a text is no value of its setting or is out of range.
    """
    known = {one.name: one for one in settings_of(kind)}
    settled = {}
    for name, text in texts.items():
        if name not in known:
            names = [called(one) for one in known]
            raise InvalidConfiguration(
                f"{called(name)}: no such setting{did_you_mean(called(name), names)} (expected: {', '.join(names)})"
            )
        settled[name] = _fitting(_read(text, known[name].hint), known[name]._replace(name=called(name)))
    return kind(**settled)


def settle(component: Any) -> None:
    """Check the settings of a dataclass made in Python as `checked` does those of a table; for its ``__post_init__``.

    Raises:
        InvalidConfiguration: a value has the wrong type or is out of range.
    """
    for one in settings_of(type(component)):
        object.__setattr__(component, one.name, _fitting(getattr(component, one.name), one))


#: Names of settings in LightGBM, XGBoost and scikit-learn, if they have another name here. Here it is LightGBM's main
#: name.
_ALIASES = {
    "method": "name type kind algorithm",
    "num_iterations": "n_estimators num_trees num_round num_rounds num_boost_round nrounds n_iter max_iter iterations",
    "learning_rate": "eta shrinkage_rate",
    "num_leaves": "max_leaves max_leaf max_leaf_nodes num_leaf",
    "min_data_in_leaf": "min_child_samples min_data min_data_per_leaf min_samples_leaf",
    "min_sum_hessian_in_leaf": "min_child_weight min_hessian min_sum_hessian min_sum_hessian_per_leaf",
    "feature_fraction": "colsample_bytree sub_feature",
    "bagging_fraction": "subsample sub_row bagging",
    "lambda_l1": "reg_alpha alpha l1_regularization",
    "lambda_l2": "reg_lambda lambda l2_regularization",
    "early_stopping_rounds": "early_stopping_round early_stopping n_iter_no_change",
    "num_threads": "n_jobs nthread nthreads num_thread",
    "seed": "random_state random_seed",
    "max_bin": "max_bins",
    "lambdarank_truncation_level": "max_position lambdarank_num_pair_per_sample",
    "eval_at": "ndcg_at ndcg_eval_at",
}
_CALLED = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}


def alias(name: object, known: Iterable[str]) -> str:
    """Return what a setting of another library is called here, if it is known here."""
    ours = _CALLED.get(str(name))
    return f"; it is called {ours!r} here" if ours in set(known) else ""


def plain(value: Any) -> Any:
    """Return settings as JSON and TOML values; what is `None` is left out."""
    if hasattr(value, "to_table"):
        return plain(value.to_table())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items() if member is not None}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return str(value) if isinstance(value, Path) else value


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)


def _fitting(value: Any, known: Setting, where: str = "") -> Any:
    place = f"{where}: {known.name}" if where else known.name
    if isinstance(value, list | tuple) and not value and known.default == ():
        # Written out, the default is read back.
        return ()
    for option in _options(known.hint):
        if _is_table(option):
            return checked(option, value, f"{where} [{known.name}]".lstrip())
        if get_origin(option) is tuple and _is_table(get_args(option)[0]):
            return _tables(value, get_args(option)[0], place)
        fits, settled = _match(value, option)
        if fits:
            _check(settled, known, place)
            return settled
    kind = _describe(known.hint)
    article = "a " if kind.startswith(("whole number", "number", "text", "table", "path")) else ""
    found = "" if known.secret else f", found {value!r}"
    raise InvalidConfiguration(f"{place}: expected {article}{kind}{found}")


#: The words for true and for false in flags and environment variables.
_TRUTH = {
    word: truth
    for truth, words in ((True, "true 1 yes on t y"), (False, "false 0 no off f n"))
    for word in words.split()
}


def _read(text: str, hint: Any) -> Any:
    """Return the value that a text stands for, or the text itself if it is none of this type."""
    for option in _options(hint):
        if get_origin(option) is tuple:
            return tuple(_read(part.strip(), get_args(option)[0]) for part in text.split(",") if part.strip())
        if option is bool:
            return _TRUTH.get(text.strip().lower(), text)
        if option in {int, float}:
            with suppress(ValueError):
                return option(text)
    return text


def _is_table(option: Any) -> bool:
    return dataclasses.is_dataclass(option)


def _tables(value: Any, kind: type, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidConfiguration(f"{place}: expected a list of tables, found {value!r}")
    return tuple(checked(kind, one, f"{place} {number}") for number, one in enumerate(value, 1))


def _match(value: Any, option: Any) -> tuple[bool, Any]:
    if option is types.NoneType:
        return value is None, None
    origin, inner = get_origin(option), get_args(option)
    if origin is Literal:
        return value in inner and not isinstance(value, bool), value
    if origin is tuple:
        if not isinstance(value, list | tuple) or not value:
            return False, None
        matched = [_match(member, inner[0]) for member in value]
        return all(fits for fits, _ in matched), tuple(settled for _, settled in matched)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return False, None
        matched = [_match(member, inner[1]) for member in value.values()]
        settled = (member for _, member in matched)
        return all(fits for fits, _ in matched), dict(zip(value, settled, strict=True))
    if option is bool:
        return isinstance(value, bool), value
    # Integral and Real: numpy's numbers, which searches over settings hand on, are some of these and become Python's own.
    if option is int:
        fits = not isinstance(value, bool) and isinstance(value, Integral)
        return fits, int(value) if fits else None
    if option is float:
        fits = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
        return fits, float(value) if fits else None
    if option is Path:
        fits = isinstance(value, Path) or (isinstance(value, str) and value != "")
        return fits, Path(value) if fits else None
    return isinstance(value, option), value


def _check(value: Any, known: Setting, place: str) -> None:
    for number in (
        value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
    ):
        if not isinstance(number, int | float) or isinstance(number, bool):
            continue
        low, high, above = (known.bounds.get(bound) for bound in ("low", "high", "above"))
        if low is not None and number < low:
            raise InvalidConfiguration(f"{place}: expected at least {low}, found {number}")
        if high is not None and number > high:
            raise InvalidConfiguration(f"{place}: expected at most {high}, found {number}")
        if above is not None and number <= above:
            raise InvalidConfiguration(f"{place}: expected more than {above}, found {number}")
    if (check := known.bounds.get("check")) is not None:
        try:
            check(value)
        except InvalidConfiguration as error:
            # A check of blocks, say, is also called for what is stored, and names them itself.
            said = str(error).removeprefix(f"{known.name}: ")
            raise InvalidConfiguration(f"{place}: {said}") from None
        except ValueError as error:
            found = "" if known.secret else f", found {value!r}"
            raise InvalidConfiguration(f"{place}: {error}{found}") from None


def _describe(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return " or ".join(_describe(option) for option in inner if option is not types.NoneType)
    if origin is Literal:
        choices = [repr(choice) for choice in inner]
        return choices[0] if len(choices) == 1 else "one of " + ", ".join(choices)
    if origin is tuple:
        return f"a list of {_describe(inner[0])}s"
    if origin is Mapping:
        return f"a table by name, each {_describe(inner[1])}"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}
    return names.get(hint, "table" if _is_table(hint) else str(hint))
