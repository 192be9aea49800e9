"""Components by name: those of LocalRank, and those that installed distributions register as entry points.

    [project.entry-points."localrank.learners"]
    nearest = "my_package.nearest:Nearest"          # a class, see `localrank_training.learners.role`

    [project.entry-points."localrank.methods"]
    nearest = "my_package.methods:NEAREST"          # a dict of tables, see `localrank_training.settings.methods`

Names are listed without an import. A component is imported when a configuration names it. Only training does this: a learner
returns a scorer of core, so the service never looks for entry points.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from localrank.errors import InvalidConfiguration, no_such

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Components(Mapping[str, T]):
    """Components of one kind; LocalRank's own come first.

    A plug-in may have the name of one of LocalRank's own. Defaults mean LocalRank's; a configuration that names it is refused.
    """

    def __init__(
        self,
        what: str,
        group: str,
        ours: Mapping[str, str | T],
        expected: str,
        fits: Callable[[str, Any], bool],
    ) -> None:
        """Describe one kind of component; nothing is imported yet.

        Args:
            what: how one of them is called in messages.
            group: the name under which plug-ins register theirs.
            ours: LocalRank's own: where it is, as ``module:name``, or the component itself.
            expected: what a plug-in has to be, for messages.
            fits: tells whether a component of this name is that.
        """
        self.what = what
        self.group = group
        self.ours = dict(ours)
        self._expected = expected
        self._fits = fits
        self._loaded: dict[str, T] = {}

    def __iter__(self) -> Iterator[str]:
        yield from self.ours
        yield from sorted({entry.name for entry in self.plugins()} - set(self.ours))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self.ours or any(entry.name == name for entry in self.plugins())

    def __getitem__(self, name: str) -> T:
        """Import a component.

        Raises:
            KeyError: there is none of this name.
            InvalidConfiguration: a plug-in cannot be imported or is something else, or two plug-ins have this name.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def named(self, name: str) -> T:
        """Import a component that a configuration names.

        Raises:
            InvalidConfiguration: there is none of this name, or it cannot be used.
        """
        if name not in self._loaded and name not in self:
            raise InvalidConfiguration(no_such(self.what, name, self))
        return self[name]

    def check_written(self, name: str) -> None:
        """Refuse a name that somebody wrote and that stands for two components.

        Raises:
            InvalidConfiguration: they have this name.
        """
        claims = self._claims(name)
        if len(claims) + (name in self.ours) > 1:
            owners = [*(["LocalRank itself"] if name in self.ours else []), *sorted(map(_origin, claims))]
            raise InvalidConfiguration(
                f"{self.what} {name!r}: expected one component of this name, found {len(owners)}: {', '.join(owners)}"
            )

    def plugins(self) -> list[EntryPoint]:
        """Return what installed distributions register."""
        # Only commands that name or list components wait for this import.
        from importlib.metadata import entry_points

        return list(entry_points(group=self.group))

    def _claims(self, name: str) -> list[EntryPoint]:
        return [entry for entry in self.plugins() if entry.name == name]

    def _load(self, name: str) -> T:
        if name in self.ours:
            ours = self.ours[name]
            return pkgutil.resolve_name(ours) if isinstance(ours, str) else ours
        self.check_written(name)
        (entry,) = self._claims(name)
        try:
            found = entry.load()
        # Whatever a module of somebody else does when it is imported.
        except Exception as error:
            raise InvalidConfiguration(
                f"{self.what} {name!r}: the plug-in {_origin(entry)} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not self._fits(name, found):
            raise InvalidConfiguration(
                f"{self.what} {name!r}: the plug-in {_origin(entry)}: expected {self._expected}, found {found!r}"
            )
        made: T = found
        return made


def _origin(entry: EntryPoint) -> str:
    """Return where an entry point comes from, such as ``my-package 1.0 (my_package.nearest:Nearest)``."""
    owner = f"{entry.dist.name} {entry.dist.version} " if entry.dist else ""
    return f"{owner}({entry.value})"
