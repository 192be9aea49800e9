"""Several instances behind a real balancer: promotions and restarts in turn, under constant arrivals.

    python -m benchmarks.fleet [--balancer haproxy] [--instances 4] [--rate 60] [--seconds 20] [--repeats 5]
                               [--neighbours 0] [--out FILE]

The balancer is HAProxy or nginx with the configuration of ``deploy/``, listening on 127.0.0.1
(``apt-get install haproxy nginx-light``). Each instance is ``localrank serve --models-url`` with one worker and its own copy
of a folder of models, which this publishes to.

First CPU: the instances answer the same rate each, once one of them alone and once all, in turn. What is counted is the
CPU time of the instances per answer, and that of the balancer. Then requests arrive at constant times whether or not earlier ones
were answered, nine rerank requests for each batch of four queries, while versions are promoted and rolled back at the
URL, and then while each instance is stopped (SIGTERM) and started again in turn. Every answer is compared with
what the version that it names ranks here. The client never asks twice. Each row has its load average and the share of
processor time that was stolen (`benchmarks.noise`). With ``--neighbours N`` other processes are busy all the time.

The exit code is 1 if a request failed, if an answer was not that of one version, or if CPU per request of all instances is
more than 1.15 times that of one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import noise, results, served_models, servers
from localrank import Registry, artifact
from localrank.commands.output import print_table
from localrank.registry.remote import RemoteStore, push
from localrank.scorers import LinearScorer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Times the CPU per request of one instance that all together may use.
TARGET = 1.15
DEPLOY = Path(__file__).parents[1] / "deploy"
BALANCERS = ("haproxy", "nginx")
NAME = "bench"
FEATURES = 46
DOCUMENTS = 60
#: Queries of one batch, and how many requests there are for each.
BATCH, EVERY = 4, 10
#: Seconds in which an instance that was stopped still answers: longer than the balancer needs to notice.
DRAIN = 3.0
_HEAD = re.compile(rb"HTTP/1\.1 (\d+)")
_POLL = 0.5


class Body(NamedTuple):
    """A request, and for each of its queries and each version the order and the scores that are right."""

    request: bytes
    expected: list[dict[int, tuple[list[int], list[float]]]]


@dataclass
class Offered:
    """What became of requests at constant arrivals.

    Attributes:
        latencies: seconds from when a request was due.
        failures: what was answered instead of 200, or how the connection broke.
        wrong: answers that were not those of one version.
        versions: how many answers each version gave.
    """

    latencies: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    versions: Counter[int] = field(default_factory=Counter)

    def row(self, what: str, disturbed: noise.Noise) -> results.Row:
        """Return it as a row of results."""
        quantiles = np.quantile(self.latencies, (0.5, 0.99, 1.0)) * 1e3 if self.latencies else [np.nan] * 3
        return {
            "during": what,
            "answers": len(self.latencies),
            "failed": len(self.failures),
            "not of one version": len(self.wrong),
            "by version": " ".join(f"{version}:{count}" for version, count in sorted(self.versions.items())),
            "p50 ms": round(float(quantiles[0]), 2),
            "p99 ms": round(float(quantiles[1]), 2),
            "slowest ms": round(float(quantiles[2]), 1),
            **disturbed._asdict(),
        }


class Client:
    """Asks without asking twice."""

    def __init__(self, port: int, bodies: list[Body]) -> None:
        self._port, self._bodies = port, bodies
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.offered = Offered()

    async def run(self, rate: float, seconds: float) -> None:
        """Send at constant times; wait for the last answer."""
        asked = set()
        begun = time.perf_counter()
        for i in range(int(rate * seconds)):
            due = begun + i / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.create_task(self._ask(self._bodies[i % len(self._bodies)], due))
            asked.add(task)
            task.add_done_callback(asked.discard)
        await asyncio.gather(*asked)
        for _, writer in self._idle:
            writer.close()

    async def _ask(self, body: Body, due: float) -> None:
        try:
            async with asyncio.timeout(40):
                reader, writer = (
                    self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
                )
                writer.write(body.request)
                head = await reader.readuntil(b"\r\n\r\n")
                content = await reader.readexactly(servers.declared(head) or 0)
        except (OSError, EOFError, TimeoutError) as error:
            self.offered.failures.append(f"{type(error).__name__}: {error}")
            return
        latency = time.perf_counter() - due
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self._idle.append((reader, writer))
        status = _HEAD.match(head)
        if status is None or status[1] != b"200":
            self.offered.failures.append(
                (head.splitlines()[0] + b" " + content[:200]).decode(errors="replace")
            )
            return
        self.offered.latencies.append(latency)
        self._check(body, json.loads(content))

    def _check(self, body: Body, answer: dict[str, Any]) -> None:
        queries = [one.get("answer", {}) for one in answer["answers"]] if "answers" in answer else [answer]
        versions = {int(one.get("version", 0)) for one in queries}
        right = len(versions) == 1 and all(
            (
                [result["index"] for result in one["results"]],
                [result["score"] for result in one["results"]],
            )
            == expected[one["version"]]
            for one, expected in zip(queries, body.expected, strict=True)
        )
        if right:
            self.offered.versions[versions.pop()] += 1
        else:
            self.offered.wrong.append(str(answer)[:300])


def offer(port: int, bodies: list[Body], rate: float, seconds: float) -> Offered:
    """Ask at constant times; in a process of its own."""
    client = Client(port, bodies)
    asyncio.run(client.run(rate, seconds))
    return client.offered


@contextmanager
def offering(port: int, bodies: list[Body], rate: float, seconds: float) -> Iterator[Any]:
    """Ask while the block does something else; yield what will have the outcome."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(time.sleep, (0,))
        yield pool.apply_async(offer, (port, bodies, rate, seconds))


class Instance:
    """One ``localrank serve``, which can be stopped and started again on its port."""

    def __init__(self, url: str, folder: Path, *, log: Path) -> None:
        self.port = servers.free_port()
        self._command = [sys.executable, "-m", "localrank", "serve", "--models-url", url]
        self._command += ["--models-url-seconds", str(_POLL), "--models-dir", str(folder), "--workers", "1"]
        self._command += [
            "--port",
            str(self.port),
            "--drain-seconds",
            str(DRAIN),
            "--poll-seconds",
            str(_POLL),
        ]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, without waiting."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, env={**os.environ, **servers.ONE_THREAD}
            )

    def wait(self) -> None:
        """Wait until it is ready."""
        deadline = time.monotonic() + 180
        while not servers.ask(self.port, servers.get("/readyz")).startswith(b"HTTP/1.1 200"):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise servers.DidNotStart(self._log.read_text()[-500:])
            time.sleep(0.1)

    def version(self) -> int:
        """Return the champion that it serves."""
        answer = servers.ask(self.port, servers.get("/readyz")).partition(b"\r\n\r\n")[2]
        return int(json.loads(answer)["models"][NAME])

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used so far."""
        assert self._process is not None
        return servers.Server(self._process.pid, self.port).cpu()

    def stop(self) -> int:
        """Tell it to end, and wait for that."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def configured(balancer: str, ports: Mapping[int, list[int]]) -> str:
    """Return the configuration of ``deploy/`` for these ports of ours, and the instances behind each."""
    if balancer == "haproxy":
        text = (DEPLOY / "haproxy.cfg").read_text()
        head, _, rest = text.partition("frontend localrank\n")
        front, _, back = rest.partition("\nbackend localrank\n")
        blocks = [
            f"frontend f{port}\n{front.replace(':8080', f'127.0.0.1:{port}').replace('localrank', f'b{port}')}"
            f"backend b{port}\n"
            + re.sub(r"  server .*\n", "", back)
            + "".join(f"  server i{one} 127.0.0.1:{one}\n" for one in behind)
            for port, behind in ports.items()
        ]
        return head + "\n".join(blocks)
    text = (DEPLOY / "nginx.conf").read_text()
    upstream = re.search(r"  upstream localrank \{.*?\n  \}\n", text, re.DOTALL)
    server = re.search(r"  server \{.*?\n  \}\n", text, re.DOTALL)
    assert upstream is not None
    assert server is not None
    line = re.search(r"    server localrank-1:8080(.*);\n", upstream[0])
    assert line is not None
    blocks = []
    for port, behind in ports.items():
        kept = re.sub(r"    server localrank.*\n", "", upstream[0]).removesuffix("  }\n")
        kept = kept.replace("upstream localrank", f"upstream u{port}")
        kept += "".join(f"    server 127.0.0.1:{one}{line[1]};\n" for one in behind) + "  }\n"
        blocks.append(
            kept
            + server[0]
            .replace("listen 8080", f"listen 127.0.0.1:{port}")
            .replace("http://localrank", f"http://u{port}")
        )
    text = text.replace(upstream[0], "").replace(server[0], "\n".join(blocks))
    return f"daemon off;\npid nginx.pid;\nerror_log nginx.log;\n{text}".replace(
        "http {\n",
        "http {\n  client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n"
        "  uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n",
    )


@contextmanager
def balancing(balancer: str, ports: Mapping[int, list[int]], folder: Path) -> Iterator[servers.Server]:
    """Run a balancer in front of instances that are ready, until it answers on every port."""
    folder.mkdir()
    path = folder / "balancer.conf"
    path.write_text(configured(balancer, ports))
    program = shutil.which(balancer, path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    command = [program, "-db", "-f", str(path)]
    if balancer == "nginx":
        command = [program, "-p", str(folder), "-e", "nginx.log", "-c", str(path)]
    first, *others = ports
    with servers.running(command, first, servers.get("/readyz")) as server:
        for port in others:
            while not servers.ask(port, servers.get("/readyz")).startswith(b"HTTP/1.1 200"):
                time.sleep(0.1)
        yield server


class Fleet(NamedTuple):
    """Instances behind a balancer, and where their models come from."""

    instances: list[Instance]
    balancer: servers.Server
    #: The balancer's ports: to the first instance alone, and to all.
    alone: int
    together: int
    origin: Registry
    store: RemoteStore
    bodies: list[Body]


@contextmanager
def fleet(balancer: str, count: int, folder: Path) -> Iterator[Fleet]:
    """Run instances behind a balancer."""
    registry = Registry(folder / "origin")
    for seed in range(2):
        random = np.random.default_rng(seed)
        made = served_models.ranker(200, FEATURES, scorer=LinearScorer(random.standard_normal(FEATURES)))
        served_models.publish(registry.models_dir, made, NAME)
    registry.promote(NAME, 1)
    (folder / "there").mkdir()
    store = RemoteStore(f"file://{folder / 'there'}")
    push(store, registry, NAME)
    with ExitStack() as stack:
        instances = []
        for i in range(count):
            instances.append(Instance(store.url, folder / f"copy-{i}", log=folder / f"{i}.log"))
            instances[-1].start()
            stack.callback(instances[-1].stop)
        for instance in instances:
            instance.wait()
        alone, together = servers.free_port(), servers.free_port()
        behind = [instance.port for instance in instances]
        ports = {alone: behind[:1], together: behind}
        server = stack.enter_context(balancing(balancer, ports, folder / "balancer"))
        yield Fleet(instances, server, alone, together, registry, store, asked(registry))


def asked(registry: Registry) -> list[Body]:
    """Return requests with their right answers by each version."""
    rankers = {
        version: artifact.load(registry.models_dir / NAME / str(version)).ranker
        for version in registry.versions(NAME)
    }

    def expected(matrix: Any) -> dict[int, tuple[list[int], list[float]]]:
        found = {version: ranker.rank(matrix) for version, ranker in rankers.items()}
        return {
            version: (one.order.tolist(), one.scores[one.order].tolist()) for version, one in found.items()
        }

    bodies = []
    for i in range(EVERY):
        matrices = [
            served_models.documents(DOCUMENTS, FEATURES, 100 * i + j) for j in range(BATCH if i == 0 else 1)
        ]
        texts = [served_models.as_json(matrix) for matrix in matrices]
        body = b'{"queries":[' + b",".join(texts) + b"]}" if i == 0 else texts[0]
        path = "/v1/rerank/batch" if i == 0 else "/v1/rerank"
        bodies.append(Body(servers.post(path, body, "application/json"), [expected(one) for one in matrices]))
    return bodies


def use(
    found: Fleet, port: int, instances: list[Instance], rate: float, seconds: float
) -> tuple[Offered, results.Row]:
    """Ask some instances at a rate for each; return what became of that, and CPU per answer."""
    before = [instance.cpu() for instance in instances]
    balancer = found.balancer.cpu()
    with offering(port, found.bodies, rate * len(instances), seconds) as outcome:
        offered: Offered = outcome.get()
    used = sum(instance.cpu() - one for instance, one in zip(instances, before, strict=True))
    answers = len(offered.latencies)
    return offered, {
        "answers": answers,
        "cpu_ms": used / max(1, answers) * 1e3,
        "balancer_ms": (found.balancer.cpu() - balancer) / max(1, answers) * 1e3,
    }


def compare(
    found: Fleet, rate: float, seconds: float, repeats: int
) -> tuple[list[results.Row], list[Offered]]:
    """Measure CPU per answer of one instance and of all, at the same rate for each instance, in turn."""
    rows: list[results.Row] = []
    outcomes = []
    for repeat in range(repeats + 1):
        for port, instances in ((found.alone, found.instances[:1]), (found.together, found.instances)):
            (offered, row), disturbed = noise.measured(partial(use, found, port, instances, rate, seconds))
            outcomes.append(offered)
            if repeat:  # the first round is for warming up
                rows.append({"instances": len(instances), "repeat": repeat, **row, **disturbed._asdict()})
    return rows, outcomes


def promote(found: Fleet, rate: float, seconds: float) -> tuple[Offered, int, list[float]]:
    """Promote and roll back at the URL as long as requests come; return how often, and how long the fleet took."""
    switches, took = 0, []
    with offering(found.together, found.bodies, rate, seconds) as outcome:
        while not outcome.ready():
            version = 2 if found.origin.aliases(NAME)["champion"] == 1 else 1
            begun = time.monotonic()
            if version == 2:
                found.origin.promote(NAME, 2)
            else:
                found.origin.rollback(NAME)
            push(found.store, found.origin, NAME)
            switches += 1
            while any(instance.version() != version for instance in found.instances):
                if time.monotonic() > begun + 120:
                    raise servers.DidNotStart(f"an instance did not follow to version {version}")
                time.sleep(0.05)
            took.append(time.monotonic() - begun)
            outcome.wait(0.5)
        return outcome.get(), switches, took


def restart(found: Fleet, rate: float, seconds: float) -> tuple[Offered, int]:
    """Stop and start each instance in turn while requests come; return the number of restarts."""
    restarts = 0
    with offering(found.together, found.bodies, rate, seconds) as outcome:
        while not outcome.ready() and restarts < len(found.instances):
            instance = found.instances[restarts]
            code = instance.stop()
            if code != 0:
                raise servers.DidNotStart(f"an instance ended with exit code {code}")
            instance.start()
            instance.wait()
            # The balancer has to see it before the next one may go.
            outcome.wait(2.0)
            restarts += 1
        return outcome.get(), restarts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--balancer", choices=BALANCERS, default="haproxy")
    parser.add_argument("--instances", type=int, default=4)
    parser.add_argument(
        "--rate", type=float, default=60.0, help="requests a second for each instance (default 60)"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of promotions, and of restarts at least")
    parser.add_argument("--repeats", type=int, default=5, help="of the comparison of CPU")
    parser.add_argument("--neighbours", type=int, default=0, help="processes that are busy beside it")
    results.add_out(parser)
    options = parser.parse_args()
    if shutil.which(options.balancer, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        print(f"{options.balancer} is not installed: apt-get install haproxy nginx-light")
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        noise.neighbours(options.neighbours),
        fleet(options.balancer, options.instances, Path(folder)) as found,
    ):
        rows, outcomes = compare(found, options.rate, 3.0, options.repeats)
        (promoted, switches, took), while_promoted = noise.measured(
            partial(promote, found, options.rate, options.seconds)
        )
        # A restart takes the pause of draining and a start; those are long on a busy machine.
        lasting = max(options.seconds, 15.0 * options.instances)
        (restarted, restarts), while_restarted = noise.measured(
            partial(restart, found, options.rate, lasting)
        )
    by_count = {
        count: [row for row in rows if row["instances"] == count]
        for count in sorted({row["instances"] for row in rows})
    }
    cpu = {
        count: {name: float(np.median([row[name] for row in several])) for name in ("cpu_ms", "balancer_ms")}
        for count, several in by_count.items()
    }
    pairs = (
        [all_["cpu_ms"] / one["cpu_ms"] for one, all_ in zip(*by_count.values(), strict=True)]
        if len(cpu) > 1
        else [1.0]
    )
    ratio = float(np.median(pairs))
    print_table(
        ("instances", "CPU ms per request", "of the balancer"),
        [(count, f"{one['cpu_ms']:.3f}", f"{one['balancer_ms']:.3f}") for count, one in cpu.items()],
    )
    print(f"at most {noise.largest(rows)}")
    print(f"all / one: {ratio:.3f} (median of {len(pairs)} pairs, {min(pairs):.3f} to {max(pairs):.3f})\n")
    under = [
        promoted.row(f"{switches} promotions and rollbacks", while_promoted),
        restarted.row(f"{restarts} restarts of {options.instances}", while_restarted),
    ]
    print_table(list(under[0]), [list(row.values()) for row in under])
    print(
        f"a promotion had reached every instance after {np.median(took):.2f} s (median), {max(took):.2f} s at most"
    )
    for offered in (*outcomes, promoted, restarted):
        for text in (*offered.failures[:5], *offered.wrong[:5]):
            print(f"  {text}")
    results.write(
        options.out,
        cpu=rows,
        under_load=[{"balancer": options.balancer, **row} for row in under],
        promotions=[{"seconds": one} for one in took],
    )
    good = not any(offered.failures or offered.wrong for offered in (*outcomes, promoted, restarted))
    return 0 if good and restarts == options.instances and ratio <= TARGET else 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
