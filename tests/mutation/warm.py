"""A process that has imported what all tests need, and runs each list of tests in a fork of itself.

Importing pytest's plugins, numpy, scipy and scikit-learn takes longer than most tests. Nothing of the project is imported
here, so each fork reads the sources as they stand.

Run as ``python -m tests.mutation.warm``: it reads one JSON object per line, ``{"tests", "output", "seconds"}``, and answers
with pytest's exit code on a line. A run that lasts longer than ``seconds`` is killed and answered with -9.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

#: Seconds after which one test is taken to run forever.
PATIENCE = 180
OPTIONS = (
    *("-x", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist"),
    *("-o", f"faulthandler_timeout={PATIENCE}", "-o", "faulthandler_exit_on_timeout=true"),
)
#: Imported once; what is missing is left to the tests.
HEAVY = ("numpy", "scipy.optimize", "scipy.sparse", "scipy.stats", "sklearn.base", "pydantic", "typer")
#: The exit code if pytest did not even begin.
BROKEN = 70


def main() -> None:
    for name in HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    import_plugins()
    for line in sys.stdin:
        asked = json.loads(line)
        code = run(asked["tests"], asked["output"], asked["seconds"])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def import_plugins() -> None:
    """Let pytest import its plugins the way it wants to: by a run in an empty folder."""
    with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(io.StringIO()):
        settings = Path(empty, "pytest.ini")
        settings.write_text("[pytest]\n")
        pytest.main([*OPTIONS, "-c", str(settings), "--rootdir", empty, empty])


def run(tests: list[str], output: str, seconds: float) -> int:
    """Run the tests in a fork until one fails; return pytest's exit code, or minus the signal that ended it."""
    child = os.fork()
    if not child:
        # A session of its own, so that its servers can be ended with it.
        os.setsid()
        into = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(into, 1)
        os.dup2(into, 2)
        code = BROKEN
        try:
            code = int(pytest.main([*OPTIONS, *tests]))
        except Exception:  # noqa: BLE001 - whatever it is, it is no verdict
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return code


if __name__ == "__main__":
    main()
