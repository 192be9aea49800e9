"""The options that say who does the work: processes here, or the workers of a Dask cluster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from localrank.commands.output import print_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

Workers = Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Train on a Dask cluster: the address of its scheduler, or 'local' for workers on this machine.",
        show_default=False,
    ),
]


@contextmanager
def working(workers: int, dask: str | None) -> Iterator[int]:
    """Run the work on processes here or on a Dask cluster, as the user asked; yield how many pieces run at a time."""
    from localrank_training.parallel import available_cores

    if dask is None:
        yield workers or available_cores()
        return
    if workers:
        raise typer.BadParameter("expected one of them, found both", param_hint="--workers and --dask")
    from localrank_training.dask_workers import dask_workers

    with dask_workers(dask) as cluster:
        try:
            yield cluster.threads
        finally:
            print_notes(cluster.notes, err=True)
