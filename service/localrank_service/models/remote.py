"""Keeping the folder of models like the one at a URL, next to the requests.

One process of all that share the folder pulls, in a thread of its own; the others look at what it notes there. A process that
ends gives its turn to another. The loader sees moved aliases as if somebody had moved them on this machine. If the URL
cannot be read, the models in the folder are still served.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from localrank.errors import LocalRankError
from localrank.registry.mirror import Mirror, MirrorNote, check_copy, leading, pulling, read_note, seen
from localrank.registry.remote import RemoteStore

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_service.telemetry.meters import Meters

_log = logging.getLogger("localrank.service")


class Remote:
    """The folder of models at ``url``, which ``models_dir`` follows.

    Args:
        url: of the folder.
        models_dir: its copy on this machine.
        seconds: between two looks.
        meters: show when the URL was last read.
    """

    def __init__(self, url: str, models_dir: Path, seconds: float, meters: Meters) -> None:
        self.url = url
        self._models_dir = models_dir
        self._seconds = seconds
        self._meters = meters
        self._stopping = threading.Event()
        self._said: str | None = None
        self._known: frozenset[str] = frozenset()

    def start(self) -> None:
        """Follow until `stop`; in a thread that does not keep the process from ending."""
        threading.Thread(target=self._run, name="localrank-remote", daemon=True).start()

    def stop(self) -> None:
        """Stop following. An incomplete copy stays, and the next process removes it."""
        self._stopping.set()

    def error(self) -> str | None:
        """Return why the URL cannot be read, if the last attempt failed."""
        error = self._note().error
        return None if error is None else self._shown(error)

    def broken(self) -> dict[str, str]:
        """Return why versions that should be served could not be fetched, by address."""
        return {address: self._shown(reason) for address, reason in self._note().broken.items()}

    def _note(self) -> MirrorNote:
        return read_note(self._models_dir) or MirrorNote(self.url)

    def _shown(self, text: str) -> str:
        """Return the message without the URL of the models and paths of this machine, because everybody may read it."""
        return text.replace(self.url, "LOCALRANK_MODELS_URL").replace(f"{self._models_dir}/", "")

    def look(self) -> None:
        """Show when the URL was last read."""
        if (when := seen(self._models_dir)) is not None:
            self._meters.remote_seen.set(when)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                # Held as long as this process lives: only one of them loads the library and asks the URL.
                with leading(self._models_dir):
                    self._follow()
            except BlockingIOError:
                pass
            except Exception as error:  # noqa: BLE001 - whatever it is, what is here is served
                self._complain(error)
            self.look()
            self._stopping.wait(self._seconds)

    def _follow(self) -> None:
        """Pull again and again."""
        check_copy(self._models_dir, self.url)
        mirror = Mirror(RemoteStore(self.url), self._models_dir)
        while not self._stopping.is_set():
            try:
                with pulling(self._models_dir):
                    pulled = mirror.pull()
            except Exception as error:  # noqa: BLE001 - whatever it is, what is here is served
                self._complain(error)
            else:
                if self._said is not None:
                    _log.info("models at %s: the URL can be read again", self.url)
                self._said = None
                for line in pulled.lines():
                    _log.info("models at %s: %s", self.url, line)
                for address, reason in pulled.broken.items():
                    if reason not in self._known:
                        _log.error("models at %s: %s is broken: %s", self.url, address, reason)
                self._known = frozenset(pulled.broken.values())
            self.look()
            self._stopping.wait(self._seconds)

    def _complain(self, error: Exception) -> None:
        """Log once for each reason."""
        if str(error) == self._said:
            return
        self._said = str(error)
        _log.error(
            "cannot read the models at %s; still serving the local copy: %s",
            self.url,
            error,
            exc_info=None if isinstance(error, LocalRankError) else error,
        )
