"""How well a served model ranks judged queries, measured in the service, next to live requests.

All of it happens in a thread of its own, one evaluation at a time in a worker. The thread gives way to the event loop, and
waits before each query as long as live requests wait. The rankings are those of `/v1/rerank`, by the same call; they are
not counted among the live ones.
"""

from __future__ import annotations

from collections import Counter
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import Judgements
from localrank.ranker import Stopwatch
from localrank_service.http.aside import give_way, giving_way
from localrank_service.http.problems import Problem
from localrank_service.ranking.reranking import rank_plainly
from localrank_service.wire.query import Options, with_items

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Vector
    from localrank_service.apis.evaluate.reader import Exam, Judged
    from localrank_service.http.admission import Admission
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.query import Documents

#: Seconds that the thread waits before it looks again whether live requests wait.
_PAUSE = 5e-4
_QUANTILES = {"p50": 50, "p90": 90, "p99": 99}
_PLAIN = Options()


class EvaluationRun:
    """One evaluation.

    Args:
        exam: what to measure.
        model: to measure.
        admission: knows whether live requests wait.
        seconds: that it may take.
    """

    def __init__(self, exam: Exam, model: LiveModel, admission: Admission, seconds: float) -> None:
        self._exam = exam
        self._model = model
        self._admission = admission
        self._seconds = seconds
        self._until = monotonic() + seconds

    def run(self) -> dict[str, Any]:
        """Return the members of the answer; this runs in a thread."""
        with giving_way():
            begun = monotonic()
            queries = list(self._exam.queries(self._model.ranker.contract, self._read_on))
            labels = _joined([one.labels for one in queries])
            offsets = np.concatenate([[0], np.cumsum([len(one.labels) for one in queries], dtype=np.int64)])
            judgements = self._judgements(labels, offsets)
            read = monotonic()
            scores, latencies, stages, routes = self._rank(queries)
            ranked = monotonic()
            measured = judgements.measure(scores, self._exam.metrics)
        answer: dict[str, Any] = {
            "model": self._model.name,
            "version": self._model.version,
            "queries": len(queries),
            "documents": len(labels),
            "metrics": [one.to_json() for one in measured],
            "latency_ms": _spread(latencies),
            "stages_ms": {stage: round(total / max(len(queries), 1), 4) for stage, total in stages.items()},
            "routes": dict(sorted(routes.items())),
        }
        if self._exam.per_query:
            columns = [(one.name, one.per_query.tolist()) for one in measured]
            answer["per_query"] = [
                {"query_id": one.query_id, "metrics": {name: values[position] for name, values in columns}}
                for position, one in enumerate(queries)
            ]
        answer["timings_ms"] = {
            "read": round((read - begun) * 1e3, 3),
            "rank": round((ranked - read) * 1e3, 3),
            "measure": round((monotonic() - ranked) * 1e3, 3),
        }
        return answer

    def _completed(self, documents: Documents) -> Documents:
        tables = self._model.tables
        return (
            documents if tables is None else with_items(documents, tables.items, self._model.ranker.contract)
        )

    def _judgements(self, labels: Vector, offsets: Any) -> Judgements:
        """Return what measures, or refuse the labels before anything is ranked."""
        try:
            judgements = Judgements(labels, offsets, self._exam.convention)
            judgements.check(self._exam.metrics)
        except (InvalidData, InvalidConfiguration) as error:
            raise Problem(
                422, str(error), pointer=None if self._exam.body is not None else "/queries"
            ) from None
        return judgements

    def _rank(self, queries: list[Judged]) -> tuple[Vector, list[float], Mapping[str, float], Counter[str]]:
        scores: list[Vector] = []
        latencies: list[float] = []
        stages: Counter[str] = Counter()
        routes: Counter[str] = Counter()
        for position, one in enumerate(queries):
            self._wait(position, len(queries))
            timing = Stopwatch()
            try:
                ranking = rank_plainly(self._model, self._completed(one.documents), _PLAIN, timing).ranking
            except Problem as problem:
                problem.detail = (
                    f"query {one.query_id if one.query_id is not None else position}: {problem.detail}"
                )
                if self._exam.body is None and problem.pointer is not None:
                    problem.pointer = f"/queries/{position}{problem.pointer}"
                raise
            took = dict(timing.stop())
            latencies.append(took.pop("total"))
            stages.update(took)
            scores.append(ranking.scores)
            routes["global" if ranking.route.cluster is None else str(ranking.route.cluster)] += 1
        return _joined(scores), latencies, stages, routes

    def _read_on(self) -> None:
        """Give way if a request is being answered, unless there is no time to go on reading."""
        # Otherwise the interpreter's own switches every 5 ms are enough, because reading does not release it in
        # between.
        if self._admission.working > 1:
            give_way()
        if monotonic() > self._until:
            raise Problem(
                504,
                f"reading the judged queries took longer than {self._seconds:g} s, the limit of this server; send fewer",
                kind="deadline",
            )

    def _wait(self, done: int, total: int) -> None:
        """Let live requests go first, as long as there is time."""
        give_way()
        while monotonic() < self._until:
            if not self._admission.waiting:
                return
            sleep(_PAUSE)
        raise Problem(
            504,
            f"the evaluation has ranked {done} of {total} queries in {self._seconds:g} s, the limit of this "
            "server; send fewer queries, or try again when it is less busy",
            kind="deadline",
        )


def _joined(parts: list[Vector]) -> Vector:
    return np.concatenate(parts) if parts else np.zeros(0)


def _spread(milliseconds: list[float]) -> dict[str, float] | None:
    """Return mean, quantiles and greatest; ``None`` of nothing."""
    if not milliseconds:
        return None
    values = np.array(milliseconds)
    quantiles = {name: float(np.percentile(values, q)) for name, q in _QUANTILES.items()}
    figures = {"mean": float(values.mean()), **quantiles, "max": float(values.max())}
    return {name: round(value, 4) for name, value in figures.items()}
