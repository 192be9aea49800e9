"""``localrank data collect``: ask a search engine for many queries, and store its responses."""

from __future__ import annotations

from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from localrank.commands.output import print_json
from localrank.errors import InvalidConfiguration, StoreUnavailable
from localrank_training.cli.arguments import say
from localrank_training.cli.output import AsJson, given, progress


def collect(
    *,
    engine: Annotated[
        str,
        typer.Option(
            help="URL of the search: of Elasticsearch, OpenSearch, Solr or Vespa, which answer a POST of JSON.",
            show_default=False,
            callback=given,
        ),
    ],
    queries: Annotated[
        str,
        typer.Option(
            help="A query on each line, or CSV with a column query or query_text (and query_id or qid), such as judgements.",
            show_default=False,
            callback=given,
        ),
    ],
    template: Annotated[
        str,
        typer.Option(
            help="The body of a search; {{query}} in it, and the names of other columns, stand for values.",
            show_default=False,
            callback=given,
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            help="JSON lines of responses. Queries whose responses are there are not asked again.",
            show_default=False,
            callback=given,
        ),
    ],
    rate: Annotated[float, typer.Option(min=0.001, max=10_000, help="Searches per second.")] = 10.0,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Searches at a time.")] = 2,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one search.")] = 30.0,
    retries: Annotated[
        int,
        typer.Option(
            min=0,
            max=20,
            help="How often a search is repeated if the engine is busy (429, 503) or does not answer.",
        ),
    ] = 5,
    credentials_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable with user:password, or with the value of the header Authorization (ApiKey …, Bearer …).",
        ),
    ] = None,
    credentials_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The same in a file that only you can read (mode 0600).", callback=given
        ),
    ] = None,
    ca_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Certificates that the engine's certificate is checked with.", callback=given
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Ask for all queries again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a search engine for many queries and store its responses, for localrank data join.

    Examples:
      localrank data collect --engine http://localhost:9200/products/_search?include_named_queries_score=true --queries judgements.csv --template search.json --out responses.jsonl
      localrank data collect --engine https://search.example/products/_search --queries queries.txt --template search.json --out responses.jsonl --credentials-env ES_AUTH
    """
    if find_spec("httpx") is None:
        raise InvalidConfiguration("localrank data collect needs httpx: pip install 'localrank[client]'")
    from localrank_training.data.engines import collecting

    collecting.check_engine(engine)
    credentials = collecting.read_credentials(
        credentials_env, None if credentials_file is None else Path(credentials_file)
    )
    if credentials is not None and not _is_private(engine):
        say(f"note: the credentials go to {urlsplit(engine).hostname} without encryption; use https")
    search = collecting.Template(Path(template))
    searches = collecting.read_searches(Path(queries), search)
    access = collecting.Access(engine, credentials, None if ca_file is None else Path(ca_file))
    manners = collecting.Manners(rate, concurrency, timeout, retries)
    try:
        with progress() as advance:
            done = collecting.collect(
                access,
                searches,
                search,
                Path(out),
                manners=manners,
                overwrite=overwrite,
                progress=advance,
            )
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped: {out} holds the responses so far, and the same command goes on")
        raise
    if as_json:
        print_json({"out": out, "stored": done.stored, "before": done.before, "failed": done.failed})
    else:
        were = "was" if done.before == 1 else "were"
        before = f", {done.before} {were} there before" if done.before else ""
        typer.echo(f"{out}: {done.stored} response{'s' * (done.stored != 1)} stored{before}")
    if done.failed:
        query, said = next(iter(done.failed.items()))
        raise StoreUnavailable(
            f"{len(done.failed)} of {len(searches)} searches failed, such as {query!r}: {said}; the same command asks for them again"
        )


def _is_private(url: str) -> bool:
    """Return whether nobody on the way can read what is sent."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
