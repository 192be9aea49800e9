"""Run a command as a shell does, in this process: what it prints, and its exit code."""

from __future__ import annotations

import io
import json
import logging
import os
from contextlib import chdir, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


class Done(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return what it printed with ``--json``."""
        assert self.out, self.err
        return json.loads(self.out)


def run(folder: Path, *arguments: str) -> Done:
    """Run ``localrank`` in a folder."""
    out, err = io.StringIO(), io.StringIO()
    before = logging.root.handlers[:], logging.root.level
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(arguments)) or 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
    logging.root.handlers[:], logging.root.level = before
    os.environ.pop("COLUMNS", None)
    return Done(int(code), out.getvalue(), err.getvalue())
