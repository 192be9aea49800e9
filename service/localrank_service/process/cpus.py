"""How many processors this process may use, by its affinity and the quota of its container. Linear algebra uses one of
them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from threadpoolctl import threadpool_info, threadpool_limits

#: The default stops here: on a large machine, users do not expect a process for each core.
MOST_WORKERS = 8

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def bound() -> int:
    """Return how many processors the process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota(groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> float | None:
    """Return the processors that the control groups allow, the least of all levels; ``None`` if they limit nothing.

    Args:
        groups: where control groups are mounted; both versions are read.
        membership: lists the groups of this process.
    """
    limits = []
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                root, read = groups, _unified
            elif "cpu" in controllers.split(","):
                root, read = groups / "cpu", _split
            else:
                continue
            # In a container the path may be the one on the host, which does not exist here; the mounted groups are its
            # own.
            level = root / path.lstrip("/")
            for folder in (level, *level.parents):
                if not folder.is_relative_to(root):
                    break
                with suppress(OSError, ValueError):
                    limits.append(read(folder))
    known = [limit for limit in limits if limit is not None]
    return min(known, default=None)


def workers() -> int:
    """Return one worker for each whole processor, at least 1 and at most `MOST_WORKERS`."""
    allowed = quota()
    count = bound() if allowed is None else min(bound(), int(allowed))
    return max(1, min(count, MOST_WORKERS))


def keep_to_one_thread() -> None:
    """Let every library of linear algebra use one thread: requests are small, and workers share the processors."""
    threadpool_limits(1)


def threads() -> dict[str, int]:
    """Return how many threads each library of linear algebra uses, by the name of its file."""
    return {Path(pool["filepath"]).name: pool["num_threads"] for pool in threadpool_info()}


def _unified(folder: Path) -> float | None:
    share, period = (folder / "cpu.max").read_text().split()
    return None if share == "max" else int(share) / int(period)


def _split(folder: Path) -> float | None:
    share = int((folder / "cpu.cfs_quota_us").read_text())
    return None if share < 0 else share / int((folder / "cpu.cfs_period_us").read_text())
