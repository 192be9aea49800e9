"""Ask a search engine for many queries, and store what it answers as JSON lines.

It is polite: at most so many searches a second and at a time, and a pause for all of them when the engine says that it is busy (429,
503) or does not answer. What is stored is not asked again, so a run that was stopped goes on where it was. A line is written whole or
not at all.

Credentials are sent to the engine's own origin and nowhere else: a redirect to another one ends the run. They are not written to
files or messages; a response that repeats them is refused. Proxies and ``.netrc`` of the environment are not used.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import io
import json
import os
import random
import re
import signal
import ssl
import stat
import sys
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from localrank import __version__
from localrank.errors import InvalidConfiguration, InvalidData, StoreUnavailable
from localrank.locks import hold
from localrank.responses import engine_of, listed
from localrank_training.data.engines.judgements import DOCUMENTS, QUERY_IDS, QUERY_TEXTS, RATINGS
from localrank_training.data.engines.lines import object_in
from localrank_training.data.sources import locate, opened
from localrank_training.data.table_text import delimiter_of
from localrank_training.parallel.processes import Progress, silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path


_PLACEHOLDER = re.compile(r"\{\{([^{}]{1,100})\}\}")
#: Bytes of a response, of a template, and of credentials.
_LARGEST, _LARGEST_TEMPLATE, _LONGEST_SECRET = 1 << 28, 1 << 20, 1 << 14
#: Characters of a secret that are looked for in responses; shorter ones are found everywhere.
_SHORTEST_SECRET = 6
#: Seconds of the longest pause.
_LONGEST_PAUSE = 60.0
_BUSY = frozenset({429, 502, 503, 504})
#: The engine refuses every search.
_HOPELESS = frozenset({401, 403, 404, 405, 415})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 3
#: Failures one after the other that end a run.
_MOST_FAILURES = 10
#: The exit code of a command that SIGTERM ended, as shells count.
_TERMINATED = 143
#: Characters of an answer that a message shows.
_SHOWN = 200


class PlannedSearch(NamedTuple):
    """One search.

    Attributes:
        query: its text.
        id: of the query, if the file has ids.
        values: of the template's placeholders.
    """

    query: str
    id: str | None
    values: Mapping[str, str]

    @property
    def key(self) -> tuple[str | None, str]:
        return self.id, self.query

    @property
    def others(self) -> dict[str, str]:
        """The values beside the query."""
        return {name: value for name, value in sorted(self.values.items()) if name != "query"}


class Access(NamedTuple):
    """Where the engine is, and how it lets one in.

    Attributes:
        url: of a search, as of `check_engine`.
        credentials: the value of the header ``Authorization``, as of `read_credentials`.
        ca_file: certificates that the engine's certificate is checked with; None takes the usual ones.
    """

    url: str
    credentials: str | None = None
    ca_file: Path | None = None


class Manners(NamedTuple):
    """How the engine is asked.

    Attributes:
        rate: searches per second.
        concurrency: at a time.
        timeout: seconds for one search.
        retries: after the first attempt.
        pause: seconds before the first retry; the next one waits twice as long.
    """

    rate: float = 10.0
    concurrency: int = 2
    timeout: float = 30.0
    retries: int = 5
    pause: float = 0.5


@dataclass(slots=True)
class Collected:
    """What a run did.

    Attributes:
        stored: responses that were added.
        before: that were there.
        failed: queries that the engine refuses, and what it says.
    """

    stored: int = 0
    before: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def check_engine(url: str) -> str:
    """Return the URL of a search.

    Raises:
        InvalidConfiguration: it is no URL, or holds credentials.
    """
    try:
        parts = urlsplit(url)
        # httpx refuses some hosts that urlsplit takes.
        is_url = parts.scheme in {"http", "https"} and parts.port != 0 and httpx.URL(url).host != ""
    except (ValueError, httpx.InvalidURL):
        is_url = False
    if not is_url or not parts.hostname or parts.fragment:
        raise InvalidConfiguration(
            "--engine: expected the URL of a search, such as http://localhost:9200/products/_search"
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidConfiguration(
            "--engine: expected a URL without user and password; name an environment variable or a file that holds them"
        )
    return url


def read_credentials(variable: str | None, path: Path | None) -> str | None:
    """Return the value of the header ``Authorization``; None if there are no credentials.

    They are ``user:password``, or a whole value such as ``ApiKey …`` or ``Bearer …``.

    Raises:
        InvalidConfiguration: there are none where they should be, or others may read the file.
    """
    if variable is not None and path is not None:
        raise InvalidConfiguration("expected --credentials-env or --credentials-file, found both")
    if variable is not None:
        text, where = os.environ.get(variable, ""), f"environment variable {variable}"
    elif path is not None:
        text, where = _private_text(path), str(path)
    else:
        return None
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable():
        raise InvalidConfiguration(
            f"{where}: expected user:password, or the value of a header such as ApiKey …; found {'other characters' if text else 'nothing'}"
        )
    scheme, blank, rest = text.partition(" ")
    if blank and rest and ":" not in scheme:
        return text
    if ":" not in text:
        raise InvalidConfiguration(
            f"{where}: expected user:password, or the value of a header such as ApiKey …; found one word"
        )
    return "Basic " + base64.b64encode(text.encode()).decode()


def _private_text(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise InvalidConfiguration(
                    f"{path}: expected a file that only its owner can read (mode 0600), found mode {stat.S_IMODE(status.st_mode):04o}"
                )
            return file.read(_LONGEST_SECRET).decode(errors="replace")
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror or error}") from None


class Template:
    """The body of a search, in whose texts ``{{query}}`` and other names of columns stand for values.

    Raises:
        InvalidData: it is no JSON object, or names nothing.
    """

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_bytes()[:_LARGEST_TEMPLATE]
        except OSError as error:
            raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None
        self._path, self._body = path, object_in(text, str(path))
        self.names: set[str] = set()
        _walked(self._body, self._found)
        if not self.names:
            raise InvalidData(f"{path}: expected {{{{query}}}} in a text of the search, found none")

    def _found(self, text: str, *, is_name: bool = False) -> str:
        names = _PLACEHOLDER.findall(text)
        if is_name and names:
            raise InvalidData(
                f"{self._path}: expected placeholders in texts only, found {{{{{names[0]}}}}} in the name of a member"
            )
        self.names.update(name.strip() for name in names)
        return text

    def check(self, known: Sequence[str]) -> None:
        """Refuse placeholders that no column has."""
        if unknown := self.names - {*known}:
            raise InvalidData(
                f"{self._path}: expected placeholders of the columns {listed(known)}, found {{{{{min(unknown)}}}}}"
            )

    def filled(self, values: Mapping[str, str]) -> bytes:
        """Return the body of one search."""

        def fill(text: str, *, is_name: bool = False) -> str:
            return text if is_name else _PLACEHOLDER.sub(lambda found: values[found[1].strip()], text)

        return json.dumps(_walked(self._body, fill), ensure_ascii=False).encode()

    def digest(self, url: str) -> str:
        """Return what is different for a search of another form, or sent elsewhere."""
        return hashlib.sha256(json.dumps([url, self._body], sort_keys=True).encode()).hexdigest()[:16]


def _walked(value: Any, change: Callable[..., str]) -> Any:
    """Return JSON whose texts and names of members are changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_walked(one, change) for one in value]
    if isinstance(value, dict):
        return {change(name, is_name=True): _walked(one, change) for name, one in value.items()}
    return value


def read_searches(path: Path, template: Template) -> list[PlannedSearch]:
    """Return the searches of a file, each once.

    A table with a column ``query`` (and ``query_id`` or ``qid``), such as judgements; or a query on each line.

    Raises:
        InvalidData: there are none, the file is no such table, the template names other columns, or two searches for a query
            differ.
    """
    [source, *_] = locate([path])
    with opened(source) as (stream, _):
        try:
            text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidData(f"{path}: expected text in UTF-8, found bytes that are not text") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    text = text[text.index(first) :]
    delimiter = _table_delimiter(first, text, path)
    each: dict[tuple[str | None, str], PlannedSearch] = {}
    try:
        for query, identifier, row in (
            _table(text, delimiter, template) if delimiter else _lines(text, template)
        ):
            one = PlannedSearch(query, identifier, {name: row[name] for name in template.names})
            before = each.setdefault(one.key, one)
            if before.values != one.values:
                name = min(name for name in template.names if before.values[name] != one.values[name])
                ids = (
                    "add a column query_id"
                    if identifier is None
                    else f"expected other ids than {identifier!r}"
                )
                raise InvalidData(
                    f"{path}: the searches for {query!r} differ in {name!r} ({before.values[name]!r}, {one.values[name]!r}), "
                    f"and nothing tells their responses apart; {ids}"
                )
    except csv.Error as error:
        raise InvalidData(f"{path}: expected {delimiter!r} between cells: {error}") from None
    if not each:
        raise InvalidData(f"{path}: expected queries, found none")
    return [*each.values()]


def _table_delimiter(first: str, text: str, path: Path) -> str | None:
    """Return the delimiter of a table that begins with this line; None if there is a query on each line.

    Raises:
        InvalidData: it begins as judgements do that are no table, or as a table without queries.
    """
    names = " or ".join(QUERY_TEXTS)
    if form := _other_form(first.split()):
        raise InvalidData(
            f"{path}: expected a query on each line, or CSV with a column {names}; found {form}"
        )
    delimiter = delimiter_of(first.encode(), str(path)) or ","
    header = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter), [])]
    if any(name in header for name in QUERY_TEXTS):
        return delimiter
    lower = {cell.lower() for cell in header}
    if len(header) > 1:
        lines = [line for line in text.splitlines() if line.strip()]
        is_even = len(lines) > 1 and all(line.count(delimiter) == len(header) - 1 for line in lines)
        is_table = bool(lower & {*QUERY_TEXTS, *QUERY_IDS, *DOCUMENTS, *RATINGS}) or (
            is_even and not re.search(r"\s", first.replace(delimiter, ""))
        )
    else:
        is_table = bool(lower & {*QUERY_TEXTS})
    if is_table:
        raise InvalidData(f"{path}:1: expected a column {names}, found {listed(header)}")
    return None


def _other_form(words: Sequence[str]) -> str | None:
    """Return what begins with these words, if it is neither a table nor a query."""
    if "".join(words).startswith(("{", "[{", '["')):
        return "JSON"
    if len(words) > 1 and words[1].startswith("qid:"):
        return "LETOR text"
    is_qrels = len(words) == 4 and words[1] in {"0", "Q0"} and words[3].removeprefix("-").isdecimal()
    return "qrels" if is_qrels else None


def _table(
    text: str, delimiter: str, template: Template
) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
    """Yield text, id and cells of each query."""
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
    text_name = next(name for name in QUERY_TEXTS if name in rows.fieldnames)
    id_name = next((name for name in QUERY_IDS if name in rows.fieldnames), None)
    template.check([*dict.fromkeys(["query", *rows.fieldnames])])
    for row in rows:
        query = row[text_name]
        if query.strip():
            yield query, None if id_name is None else row[id_name], {**row, "query": query}


def _lines(text: str, template: Template) -> Iterator[tuple[str, None, Mapping[str, str]]]:
    template.check(["query"])
    for line in text.splitlines():
        if query := line.strip():
            yield query, None, {"query": query}


def collect(
    access: Access,
    searches: Sequence[PlannedSearch],
    template: Template,
    out: Path,
    *,
    manners: Manners,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Collected:
    """Ask for all searches whose responses are not stored yet.

    Args:
        access: to the engine.
        searches: what is searched for.
        template: of the body.
        out: where to the responses are added, as JSON lines.
        manners: how the engine is asked.
        overwrite: ask for all again.
        progress: told how many are answered.

    Raises:
        InvalidData: the file holds something else, or is being written.
        StoreUnavailable: the engine cannot be asked now.
        SystemExit: SIGTERM has ended the run.
    """
    with _store(out) as file:
        done = {} if overwrite else _stored(file, out, template.digest(access.url))
        left = [one for one in searches if done.get(one.key) != one.others]
        run = _Collecting(access, template, manners, file, Collected(before=len(searches) - len(left)))
        total = len(searches)
        with suppress(asyncio.CancelledError):
            asyncio.run(
                run.all(left, lambda: progress("searches", run.collected.before + run.finished, total))
            )
            return run.collected
    sys.exit(_TERMINATED)


@contextmanager
def _store(out: Path) -> Iterator[Any]:
    """Open the file, which nobody else writes meanwhile; only its owner may read a new one."""
    try:
        descriptor = hold(out)
    except BlockingIOError:
        raise InvalidData(
            f"{out}: expected a file that no other command writes, found one that does"
        ) from None
    except OSError as error:
        raise InvalidData(f"{out}: cannot be written: {error.strerror or error}") from None
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        yield file


def _stored(file: Any, out: Path, digest: str) -> dict[tuple[str | None, str], dict[str, str]]:
    """Return the searches that are stored, with their other values, and go to the end of it; cut off what a crash left of a line, once all lines are known to be ours."""
    found = {}
    end = 0
    begin, line = _begin(digest), b"\n"
    lines = io.BufferedReader(file)
    for number, line in enumerate(lines, 1):
        where = f"{out}:{number}"
        try:
            stored = object_in(line, where)
        except InvalidData:
            if not line.endswith(b"\n") and begin.startswith(line[: len(begin)]):
                # A crash left it. The next response takes its place.
                line = b"\n"  # noqa: PLW2901
                break
            raise
        if not isinstance(stored.get("query"), str) or "response" not in stored:
            raise InvalidData(f"{where}: expected a response that was collected, found another object")
        if stored.get("search", digest) != digest:
            raise InvalidData(
                f"{where}: expected responses to this template and URL, found one to another search; choose another --out, or "
                "--overwrite"
            )
        found[stored.get("query_id"), stored["query"]] = stored.get("values", {})
        end += len(line)
    lines.detach()
    file.seek(end)
    file.truncate()
    if not line.endswith(b"\n"):
        file.write(b"\n")
    return found


def _begin(digest: str) -> bytes:
    """Return how each line of a run begins."""
    return f'{{"search":"{digest}","'.encode()


class _BusyError(Exception):
    """The engine did not answer, or asks to come again later; ``seconds`` if it says when."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class _RefusedError(Exception):
    """The engine answers this search with an error."""


class _Collecting:
    """One run of `collect`."""

    def __init__(
        self, access: Access, template: Template, manners: Manners, file: Any, collected: Collected
    ) -> None:
        self._access, self._template, self._manners, self._file = access, template, manners, file
        self._digest = template.digest(access.url)
        self._secrets = _secrets(access.credentials)
        self.collected = collected
        self._next = 0.0
        self._in_a_row = 0
        self.finished = 0

    async def all(self, searches: Sequence[PlannedSearch], advance: Any) -> None:
        waiting = iter(searches)
        main = asyncio.current_task()
        if main is not None and threading.current_thread() is threading.main_thread():
            # An exception of a signal handler would end one task only.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, main.cancel)

        async def worker(client: httpx.AsyncClient) -> None:
            for search in waiting:
                await self._take(client, search)
                self.finished += 1
                advance()

        async with self._client() as client:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._manners.concurrency, len(searches))):
                        group.create_task(worker(client))
            except* StoreUnavailable as errors:
                raise errors.exceptions[0] from None

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        _, credentials, ca_file = self._access
        try:
            verify: ssl.SSLContext | bool = (
                True if ca_file is None else ssl.create_default_context(cafile=str(ca_file))
            )
        except OSError as error:
            raise InvalidConfiguration(
                f"{ca_file}: expected certificates: {error.strerror or error}"
            ) from None
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": f"localrank/{__version__}",
            **({} if credentials is None else {"authorization": credentials}),
        }
        async with httpx.AsyncClient(
            headers=headers, verify=verify, trust_env=False, timeout=self._manners.timeout
        ) as client:
            yield client

    async def _take(self, client: httpx.AsyncClient, search: PlannedSearch) -> None:
        """Ask for one search until it is answered, and store the response."""
        body = self._template.filled(search.values)
        for attempt in range(self._manners.retries + 1):
            await self._turn()
            try:
                async with asyncio.timeout(self._manners.timeout):
                    line = self._line(search, await self._ask(client, body))
            except (_RefusedError, httpx.DecodingError, httpx.InvalidURL, UnicodeError) as error:
                self._fail(search, self._plain(str(error)))
                return
            except (_BusyError, TimeoutError, httpx.RequestError) as error:
                said = (
                    f"no answer within {self._manners.timeout:g} seconds"
                    if isinstance(error, TimeoutError)
                    else self._plain(str(error) or type(error).__name__)
                )
                if attempt == self._manners.retries:
                    raise self._stopped(f"{said}, {attempt + 1} times for {search.query!r}") from None
                self._wait(attempt, error.seconds if isinstance(error, _BusyError) else None)
            else:
                self._write(line)
                return

    async def _turn(self) -> None:
        """Wait until the next search may be sent."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next)
        self._next = at + 1 / self._manners.rate
        await asyncio.sleep(at - now)

    def _wait(self, attempt: int, seconds: float | None) -> None:
        """Send nothing for a while."""
        if seconds is None:
            seconds = self._manners.pause * 2**attempt * random.uniform(0.5, 1.0)
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now + min(seconds, _LONGEST_PAUSE))

    async def _ask(self, client: httpx.AsyncClient, body: bytes) -> dict[str, Any]:
        url = httpx.URL(self._access.url)
        for _ in range(_MOST_REDIRECTS + 1):
            async with client.stream("POST", url, content=body) as response:
                if response.status_code in _REDIRECTS:
                    url = self._followed(url, response)
                    continue
                pieces: list[bytes] = []
                async for piece in response.aiter_bytes():
                    pieces.append(piece)
                    if sum(map(len, pieces)) > _LARGEST:
                        raise _RefusedError(f"expected at most {_LARGEST} bytes, found more")
                return self._checked(response, b"".join(pieces))
        raise self._stopped(f"expected at most {_MOST_REDIRECTS} redirects, found more")

    def _followed(self, url: httpx.URL, response: httpx.Response) -> httpx.URL:
        """Return where a redirect leads, which is the same origin."""
        there = url.join(response.headers.get("location", ""))
        if _origin(there) != _origin(url) or there.userinfo:
            raise self._stopped(
                f"expected no redirect to another server, found one to {there.scheme}://{there.netloc.decode().rpartition('@')[2]}"
            )
        if response.status_code == 303:
            raise self._stopped(f"expected an answer, found a redirect to {there.path}")
        return there

    def _checked(self, response: httpx.Response, content: bytes) -> dict[str, Any]:
        """Return the response of a search."""
        status, text = response.status_code, content.decode(errors="replace")
        said = self._plain(f"{status} {' '.join(text.split())}")
        if status in _BUSY:
            later = response.headers.get("retry-after", "")
            raise _BusyError(said, float(later) if later.isdecimal() and len(later) < 9 else None)
        if status in _HOPELESS:
            raise self._stopped(said)
        if status != 200:
            raise _RefusedError(said)
        if any(secret in text for secret in self._secrets):
            raise self._stopped("expected a response without the credentials, found one that repeats them")
        try:
            found = object_in(content, "response")
        except InvalidData as error:
            begin = f"; it begins with {' '.join(text.split())[:40]!r}" if text.strip() else ""
            raise _RefusedError(self._plain(f"{error}{begin}")) from None
        if engine_of(found) is None:
            raise _RefusedError(
                f"expected hits (Elasticsearch, OpenSearch), response (Solr) or root (Vespa), found an object with {listed([*found])}"
            )
        if problem := incomplete(found):
            raise _BusyError(f"the response is incomplete: {problem}")
        return found

    def _line(self, search: PlannedSearch, response: dict[str, Any]) -> bytes:
        """Return what is stored of a search; it begins with what `_begin` says."""
        identifier = {} if search.id is None else {"query_id": search.id}
        values = {"values": search.others} if search.others else {}
        line = {"search": self._digest, **identifier, "query": search.query, **values, "response": response}
        try:
            text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise _RefusedError(
                "response: expected finite numbers, found one beyond 1.8e308, such as 1e999"
            ) from None
        return text.encode() + b"\n"

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            if not self.collected.stored + self.collected.before:
                # With --overwrite, what is there goes when the engine has answered.
                self._file.truncate()
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._stopped(f"the response cannot be stored: {error.strerror or error}") from None
        self.collected.stored += 1
        self._in_a_row = 0

    def _fail(self, search: PlannedSearch, said: str) -> None:
        self.collected.failed[search.query] = said
        self._in_a_row += 1
        if self._in_a_row >= _MOST_FAILURES:
            raise self._stopped(f"{_MOST_FAILURES} searches failed one after the other: {said}")

    def _plain(self, text: str) -> str:
        """Return the begin of a text without the credentials."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def _stopped(self, said: str) -> StoreUnavailable:
        stored = self.collected.stored + self.collected.before
        return StoreUnavailable(
            f"{self._access.url.partition('?')[0]}: {said}; {stored} {'response is' if stored == 1 else 'responses are'} stored, and the same command goes on"
        )


def incomplete(response: Mapping[str, Any]) -> str | None:
    """Return why the response of an engine lacks hits that it should have; None if it does not."""
    shards, root, header = (response.get(name) for name in ("_shards", "root", "responseHeader"))
    if response.get("timed_out") is True:
        return "timed_out"
    if isinstance(shards, dict) and shards.get("failed"):
        return f"{shards['failed']} shards failed"
    if isinstance(header, dict) and header.get("partialResults"):
        return "partialResults"
    if isinstance(root, dict) and root.get("errors"):
        return f"errors: {json.dumps(root['errors'])[:_SHOWN]}"
    return None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    usual = {"http": 80, "https": 443}
    return url.scheme, url.host, url.port or usual.get(url.scheme)


def _secrets(credentials: str | None) -> tuple[str, ...]:
    """Return what no message and no file may hold, the longest first."""
    if credentials is None:
        return ()
    scheme, _, value = credentials.partition(" ")
    found = {credentials, value}
    if scheme == "Basic":
        with suppress(ValueError):
            found.add(base64.b64decode(value, validate=True).decode().partition(":")[2])
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len, reverse=True))
