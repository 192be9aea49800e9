"""``localrank data join``: judgements and logged responses of a search engine become judged queries."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Overwrite, say
from localrank_training.cli.export import Unjudged
from localrank_training.cli.output import AsJson, given

if TYPE_CHECKING:
    from localrank_training.data.clicks.propensities import Propensities
    from localrank_training.data.clicks.table import ClickLog
    from localrank_training.data.engines.joining import JoinedResponses, Responses
    from localrank_training.data.engines.judgements import Ratings


def join(
    *,
    judgements: Annotated[
        list[str],
        typer.Option(
            help="Judgements: CSV or JSON lines (query,docid,rating), Quepid's LTR text, TREC qrels, JSON of OpenSearch's Search Relevance "
            "Workbench or of RRE, or events of UBI; may be repeated.",
            show_default=False,
        ),
    ],
    responses: Annotated[
        list[str],
        typer.Option(
            help='JSON lines {"query": …, "response": …} of Elasticsearch, OpenSearch, Solr or Vespa, as localrank data collect '
            "stores them; may be repeated.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            help="The file to write: .parquet, .arrow, .csv, or LETOR text (.txt, .gz, .zst).",
            show_default=False,
            callback=given,
        ),
    ],
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="FILE",
            help="Also write the engine's own order, as a TREC run for --baseline.",
            callback=given,
        ),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            help="Fields of the documents that are features, too, with commas between: price,stats.clicks."
        ),
    ] = None,
    score_feature: Annotated[
        str | None, typer.Option(help="Take the engine's score as a feature of this name.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            help="The log entry (Elasticsearch, OpenSearch) or the field (Solr) that holds the features, if there are several."
        ),
    ] = None,
    sources: Annotated[
        str | None,
        typer.Option(
            help="Where in a hit features are looked for, with commas between: _ltrlog,matched_queries (default: everywhere)."
        ),
    ] = None,
    missing_as_zero: Annotated[
        bool,
        typer.Option(
            "--missing-as-zero",
            help="Write 0 for numbers that a hit does not hold, as the service then does.",
        ),
    ] = False,
    id_member: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Where in a hit the id is that the judgements name, such as fields.sku (default: _id, id).",
        ),
    ] = None,
    unjudged: Annotated[
        Unjudged,
        typer.Option(
            help="Documents that were returned but not judged: drop leaves them out, zero gives them label 0."
        ),
    ] = Unjudged.drop,
    query: Annotated[str | None, typer.Option(help="Column of the queries in CSV of judgements.")] = None,
    document: Annotated[
        str | None, typer.Option(help="Column of the documents in CSV of judgements.")
    ] = None,
    rating: Annotated[str | None, typer.Option(help="Column of the ratings in CSV of judgements.")] = None,
    propensities: Annotated[
        str | None,
        typer.Option(
            help="Correct clicks of UBI for the place of a document in the list: em, power:ETA or a file (see localrank data clicks)."
        ),
    ] = None,
    max_weight: Annotated[
        float, typer.Option(min=1.0, help="The largest weight of a corrected click.")
    ] = 10.0,
    skip_bad_lines: Annotated[
        bool,
        typer.Option(
            "--skip-bad-lines",
            help="Leave out responses that cannot be read, and name them. Without this option the first error ends the command.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Join judgements with what a search engine answered: features read as the service reads them, labels beside them.

    Examples:
      localrank data join --judgements judgements.csv --responses responses.jsonl --out judged.parquet --run engine.run
      localrank data join --judgements qrels.txt --responses responses.jsonl --out judged.txt.gz --fields price,stats.clicks
      localrank data join --judgements ubi_events.jsonl --responses responses.jsonl --out judged.parquet --propensities em
    """
    from localrank_training.data.clicks.export import propensities_of
    from localrank_training.data.clicks.propensities import trusted
    from localrank_training.data.engines import joining
    from localrank_training.data.engines.judgements import RatingColumns, read_judgements

    def correcting(clicks: ClickLog) -> Propensities | None:
        if propensities != "em":
            return None if propensities is None else propensities_of(propensities, None)
        tally = clicks.tally()
        return trusted(propensities_of(propensities, tally), tally)

    path = Path(out)
    reading = joining.Reading(
        fields=_names(fields) or (),
        log=log,
        score_feature=score_feature,
        sources=_names(sources),
        id=id_member,
    )
    judged = read_judgements(judgements, RatingColumns(query, document, rating), correcting, max_weight, say)
    found = joining.read_responses(responses, reading, skip=skip_bad_lines)
    joined = joining.join(judged, found, zero=unjudged is Unjudged.zero, missing_as_zero=missing_as_zero)
    if run is not None:
        joining.write_run(joined, Path(run), overwrite=overwrite)
    options = joining.write_joined(joined, path, overwrite=overwrite, say=say)
    baseline = "" if run is None else f" --baseline {shlex.quote(run)}"
    then = f"localrank train {shlex.quote(out)}{options}{baseline}"
    for line in joined.mixed:
        say(line)
    for line in found.bad:
        typer.echo(f"left out: {line}", err=True)
    if as_json:
        print_json(_figures(judged, found, joined) | {"out": out, "run": run, "next": then})
    else:
        _print(judged, found, joined, out)
        typer.echo(f"  train with: {then}")


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name for name in text.split(",") if name)


_LEFT = {
    "without_response": ("judged query without a response", "judged queries without a response"),
    "not_returned": ("judged document that was not returned", "judged documents that were not returned"),
    "without_relevant": (
        "list whose clicked documents were not returned",
        "lists whose clicked documents were not returned",
    ),
    "without_judgement": (
        "query with a response that was not judged",
        "queries with a response that were not judged",
    ),
    "not_judged": (
        "document that was returned and not judged",
        "documents that were returned and not judged",
    ),
}


def _figures(judged: Ratings, found: Responses, joined: JoinedResponses) -> dict[str, Any]:
    return {
        "queries": joined.queries,
        "documents": joined.table.num_rows,
        "features": joined.features,
        "judged": {"queries": len(judged.lists), "documents": judged.documents, "unrated": judged.unrated},
        "responses": {
            "read": found.count,
            "repeated": found.repeated,
            "bad": found.bad,
            "hits_without_id": found.without_id,
        },
        **{
            name: {"count": one.count, "examples": one.examples}
            for name in _LEFT
            for one in (getattr(joined, name),)
        },
    }


def _print(judged: Ratings, found: Responses, joined: JoinedResponses, out: str) -> None:
    typer.echo(
        f"{out}: {joined.queries} queries, {joined.table.num_rows} documents, {len(joined.features)} features, from "
        f"{judged.documents} judged documents and {found.count} responses"
    )
    for name, (one, several) in _LEFT.items():
        left = getattr(joined, name)
        if left.count:
            typer.echo(
                f"  {left.count} {one if left.count == 1 else several}, such as {'; '.join(left.examples)}"
            )
    for count, what in (
        (judged.unrated, "documents without a rating"),
        (found.repeated, "responses to a query that has a later one"),
        (found.without_id, "hits without an id"),
        (len(found.bad), "lines that cannot be read"),
    ):
        if count:
            typer.echo(f"  {count} {what}: left out")
