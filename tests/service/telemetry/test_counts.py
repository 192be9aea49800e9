"""What is counted is what prometheus-client itself counts, and is shared by processes that come and die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from localrank_service.telemetry.counts import Counted, Counts
from localrank_service.telemetry.instruments import Counter, Gauge, Histogram, Instrument, Over

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

BOUNDS = (0.0005, 0.25, 1, 10)
AMOUNTS = st.lists(
    st.tuples(
        st.sampled_from(["a", 'b"\\\n', "ü"]),
        st.sampled_from(BOUNDS) | st.floats(0, 100) | st.just(float("inf")),
    ),
    max_size=30,
)

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def plain(counted: Counted) -> dict[str, dict[tuple[str, ...], list[float]]]:
    """What a process has counted, as lists."""
    return {
        name: {labels: list(cells) for labels, cells in series.items()}
        for name, series in counted.series.items()
    }


class Shown:
    """What the client's exposition asks for samples."""

    def __init__(self, counts: Counts, *instruments: Instrument) -> None:
        self._counts = counts
        self._instruments = instruments

    def collect(self) -> Iterable[Metric]:
        return [instrument.family(self._counts.counted()) for instrument in self._instruments]


def text(counts: Counts, *instruments: Instrument) -> str:
    return generate_latest(Shown(counts, *instruments)).decode()


def values(counts: Counts, instrument: Instrument) -> dict[str, float]:
    """Values by the samples' labels."""
    return {
        ",".join(sample.labels.values()): sample.value
        for sample in instrument.family(counts.counted()).samples
    }


@given(AMOUNTS)
def test_instruments_show_what_those_of_the_client_show(amounts: list[tuple[str, float]]) -> None:
    registry, counts = CollectorRegistry(), Counts(None)
    theirs = (
        prometheus_client.Counter("c_total", "Counted.", ["kind"], registry=registry),
        prometheus_client.Gauge("g", "Set.", ["kind"], registry=registry),
        prometheus_client.Histogram("h", "Observed.", ["kind"], registry=registry, buckets=BOUNDS),
    )
    ours = (
        Counter(counts, "c_total", "Counted.", ["kind"]),
        Gauge(counts, "g", "Set.", ["kind"], "sum"),
        Histogram(counts, "h", "Observed.", ["kind"], BOUNDS),
    )

    for kind, amount in amounts:
        theirs[0].labels(kind).inc(amount)
        theirs[1].labels(kind).set(amount)
        theirs[2].labels(kind).observe(amount)
        ours[0].of(kind)[0] += amount
        ours[1].set(amount, kind)
        ours[2].of(kind).observe(amount)

    assert generate_latest(registry).decode() == text(counts, *ours)


def test_what_is_shared_is_what_is_not(tmp_path: Path) -> None:
    shown = []
    for counts in (Counts(None), Counts(tmp_path)):
        histogram = Histogram(counts, "h", "Observed.", ["kind"], BOUNDS)
        for amount in (0.0, 0.25, 0.3, 99.0):
            histogram.of("a").observe(amount)
        histogram.of("b").observe(1.0)
        shown.append(text(counts, histogram))

    assert shown[0] == shown[1]
    assert 'h_bucket{kind="a",le="0.25"} 2.0' in shown[0]


def test_processes_add_up_in_counters_and_agree_on_gauges(tmp_path: Path) -> None:
    seen = {}
    several = [Counts(tmp_path) for _ in range(3)]
    for number, counts in enumerate(several, 1):
        Counter(counts, "c_total", "", ["kind"]).of("a")[0] += number
        Counter(counts, "c_total", "", ["kind"]).of(number)[0] += number
        Histogram(counts, "h", "", [], BOUNDS).of().observe(number)
        for over in get_args(Over):
            Gauge(counts, over, "", [], over).set(number % 3)

    for over in get_args(Over):
        seen[over] = values(several[0], Gauge(several[0], over, "", [], over))[""]
    counted = values(several[1], Counter(several[1], "c_total", "", ["kind"]))
    exposed = text(several[2], Histogram(several[2], "h", "", [], BOUNDS))

    assert {"sum": 1 + 2 + 0, "highest": 2, "latest": 0} == seen
    assert {"a": 1 + 2 + 3, "1": 1, "2": 2, "3": 3} == counted
    assert 'h_bucket{le="1.0"} 1.0\nh_bucket{le="10.0"} 3.0' in exposed
    assert "h_sum 6.0" in exposed


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A folder in which a process has counted, set gauges, and was killed."""
    code = (
        "import pathlib, sys, time\n"
        "from localrank_service.telemetry.counts import Counts\n"
        "from localrank_service.telemetry.instruments import Counter, Gauge\n"
        "counts = Counts(pathlib.Path(sys.argv[1]))\n"
        "Counter(counts, 'c_total', '', []).of()[0] += 5\n"
        "Gauge(counts, 'living', '', [], 'highest').set(5)\n"
        "Gauge(counts, 'lasting', '', [], 'highest', lasting=True).set(5)\n"
        "print('counted', flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "counted\n" == process.stdout.readline()
        counts = Counts(tmp_path)
        assert {"": 5.0} == values(counts, Gauge(counts, "living", "", [], "highest"))
        process.kill()
    return tmp_path


def test_what_a_killed_process_counted_stays_and_its_gauges_go(killed: Path) -> None:
    counts = Counts(killed)
    counter = Counter(counts, "c_total", "", [])
    living = Gauge(counts, "living", "", [], "highest")
    lasting = Gauge(counts, "lasting", "", [], "highest", lasting=True)

    before = values(counts, counter), values(counts, living), values(counts, lasting)
    counter.of()[0] += 2
    living.set(1)
    lasting.set(1)

    assert ({"": 5.0}, {}, {"": 5.0}) == before
    assert ({"": 7.0}, {"": 1.0}, {"": 1.0}) == (
        values(counts, counter),
        values(counts, living),
        values(counts, lasting),
    )


def test_a_process_that_starts_takes_over_the_files_of_a_dead_one(killed: Path) -> None:
    before = {path.name: path.stat().st_size for path in killed.iterdir()}

    for _ in range(20):
        counts = Counts(killed)
        Counter(counts, "c_total", "", []).of()[0] += 1
        assert counts._file is not None
        os.close(counts._file._lock)  # it dies

    after = {path.name: path.stat().st_size for path in killed.iterdir()}
    assert before == after
    assert {"": 25.0} == values(counts, Counter(counts, "c_total", "", []))


def test_a_process_that_takes_over_adds_series_behind_those_it_found(killed: Path) -> None:
    for name in ("first", "second"):
        counts = Counts(killed)
        for number in range(5000):
            counts.cells(name, (str(number),), 2)[1] = number
        assert counts._file is not None
        os.close(counts._file._lock)

    found = [plain(one) for one in Counts(killed).counted()]

    assert {(str(number),): [0.0, number] for number in range(5000)} in [one.get("first") for one in found]
    assert {(str(number),): [0.0, number] for number in range(5000)} in [one.get("second") for one in found]
    assert [{(): [5.0]}] == [one["c_total"] for one in found if "c_total" in one]


def test_a_process_starts_although_the_folder_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = Counts(tmp_path)
    others.cells("c", (), 1)[0] += 2

    def full(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        counts = Counts(tmp_path)
    counts.cells("c", (), 1)[0] += 5

    assert {"": 7.0} == values(counts, Counter(counts, "c", "", []))
    assert {"": 2.0} == values(others, Counter(others, "c", "", []))


def test_series_that_fill_several_chunks_keep_their_own_numbers(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    for number in range(20_000):
        cells = counts.cells("c", (str(number),), 3)
        cells[0], cells[2] = number, -number

    (one,) = counts.counted()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.cells"))

    assert {(str(number),): [number, 0.0, -number] for number in range(20_000)} == plain(one)["c"]
    assert size > 3 * (1 << 16)


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("a",), 1)[0] += 1
    (series,) = tmp_path.glob("*.series")
    with series.open("ab") as file:
        file.write(b'["c",["b"')

    (process,) = counts.counted()

    assert {"c": {("a",): [1.0]}} == plain(process)


@pytest.mark.parametrize("damage", [b"5", b"[1]", b'{"a": 1}', b"null", b"nothing", b"\xff"])
def test_a_line_that_is_damaged_costs_no_other(damage: bytes, tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    counts.cells("one", (), 1)[0] = 1.0
    with (tmp_path / "0.series").open("ab") as file:
        file.write(b"\n" + damage + b"\n")
    counts.cells("other", (), 1)[0] = 2.0

    assert [{"one": {(): [1.0]}, "other": {(): [2.0]}}] == [plain(one) for one in counts.counted()]


def test_a_full_disk_costs_no_answer_and_what_fitted_is_still_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts(tmp_path)
    first = counts.cells("c", ("first",), 1)
    first[0] += 1.0

    def full(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        for number in range(10_000):  # more than one chunk
            counts.cells("c", (str(number),), 1)[0] += 1.0
        shown = plain(counts.counted()[0])["c"]
    counts.cells("c", ("last",), 1)[0] += 5.0

    assert shown["first",] == [1.0]
    assert set(map(tuple, shown.values())) == {(1.0,)}
    assert 5000 < len(shown) < 10_000
    assert plain(counts.counted()[0])["c"]["last",] == [5.0]


def test_a_line_that_did_not_fit_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("before",), 1)[0] += 1.0
    write = os.write

    with monkeypatch.context() as patched:
        patched.setattr("os.write", lambda file, line: write(file, line[:9]))
        counts.cells("c", ("cut",), 1)[0] += 2.0
    counts.cells("c", ("after",), 1)[0] += 3.0

    assert plain(counts.counted()[0]) == {"c": {("before",): [1.0], ("after",): [3.0]}}


def test_threads_that_ask_for_a_series_at_once_get_the_same(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        cells = list(pool.map(lambda number: counts.cells("c", (str(number % 50),), 1), range(2000)))
    for one in cells:
        one[0] += 1

    (process,) = counts.counted()

    assert {(str(number),): [40.0] for number in range(50)} == plain(process)["c"]


OPERATIONS = st.lists(
    st.tuples(st.just("count"), st.sampled_from("abcdef"), st.integers(1, 20_000))
    | st.tuples(st.just("drop"), st.sampled_from("abcdef"), st.just(0))
    | st.tuples(st.just("die"), st.just(""), st.just(0)),
    max_size=30,
)


@given(OPERATIONS)
def test_series_are_counted_whatever_is_dropped_and_whoever_dies(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str, int]]
) -> None:
    """Cells that were dropped are used again at once here; nobody is reading."""
    folder, expected = tmp_path_factory.mktemp("metrics"), dict[tuple[str, ...], list[float]]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("localrank_service.telemetry.counts._SETTLED", -1.0)
        counts = Counts(folder)
        for operation, label, size in operations:
            if operation == "count":
                size = len(expected.get((label,), ())) or size  # noqa: PLW2901
                cells = counts.cells("c", (label,), size)
                cells[0] += 1.0
                cells[-1] += size
                cell = expected.setdefault((label,), [0.0] * size)
                cell[0] += 1.0
                cell[-1] += size
            elif operation == "drop":
                counts.drop(lambda name, labels, label=label: (name, labels) == ("c", (label,)))  # type: ignore[misc]
                expected.pop((label,), None)
            else:
                assert counts._file is not None
                os.close(counts._file._lock)
                counts = Counts(folder)

            (one,) = counts.counted()
            assert expected == plain(one).get("c", {})


def test_series_that_come_and_go_take_no_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_service.telemetry.counts._SETTLED", -1.0)
    counts, sizes = Counts(tmp_path), set()
    counts.cells("stays", (), 3)[1] = 7.0

    for version in range(2000):
        for number in range(20):
            counts.cells("c", (str(version), str(number)), 18)[17] += version
        counts.drop(lambda name, labels, version=version: name == "c" and int(labels[0]) < version)  # type: ignore[misc]
        sizes.add(sum(path.stat().st_size for path in tmp_path.iterdir()))

    (one,) = counts.counted()
    assert {("1999", str(number)): [0.0] * 17 + [1999.0] for number in range(20)} == plain(one)["c"]
    assert {(): [0.0, 7.0, 0.0]} == plain(one)["stays"]
    assert max(sizes) < 2**16 + 10_000


def test_cells_that_somebody_may_be_reading_are_not_used_again(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("old",), 1)[0] = 5.0

    counts.drop(lambda _name, labels: labels == ("old",))
    counts.cells("c", ("new",), 1)

    assert [{"c": {("new",): [0.0]}}] == [plain(one) for one in counts.counted()]
    assert b'"new"],1,1,' in next(tmp_path.glob("*.series")).read_bytes()


def test_a_full_disk_keeps_series_that_should_be_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("old",), 1)[0] = 5.0
    counts.cells("c", ("stays",), 1)
    write = os.write

    with monkeypatch.context() as patched:
        patched.setattr("os.write", lambda file, line: write(file, line[:9]))
        counts.drop(lambda _name, labels: labels == ("old",))
        kept = [plain(one)["c"]["old",] for one in counts.counted()]
    counts.drop(lambda _name, labels: labels == ("old",))

    assert [[5.0]] == kept
    assert all(("old",) not in plain(one).get("c", {}) for one in counts.counted())


def test_cells_of_dropped_series_are_used_again_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("localrank_service.telemetry.counts.time.monotonic", lambda: now[0])
    counts = Counts(tmp_path)
    counts.cells("c", ("old",), 2)[1] = 5.0
    counts.drop(lambda _name, labels: labels == ("old",))

    def place(label: str) -> int:
        counts.cells("c", (label,), 1)
        (series,) = tmp_path.glob("*.series")
        (found,) = [line for line in series.read_bytes().split(b"\n") if label.encode() in line]
        return int(found.split(b",")[2])

    now[0] += 60.0
    early = place("early")
    now[0] += 1.0
    late = place("late"), place("later"), place("last")

    assert (2, (0, 1, 3)) == (early, late)
    assert {0.0} == {one for cells in plain(counts.counted()[0])["c"].values() for one in cells}


def test_what_is_shared_is_private_to_the_service(tmp_path: Path) -> None:
    """Labels hold names of keys and of models."""
    folder = tmp_path / "of" / "metrics"
    counts = Counts(folder)
    counts.cells("c", ("a",), 1)
    counts.cells("c", ("b",), 1)
    counts.drop(lambda _name, labels: labels == ("a",))

    assert 0o700 == folder.stat().st_mode & 0o777
    assert {0o600} == {path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_series_that_go_leave_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(tmp_path)
    write = os.write
    before = len(list(Path("/dev/fd").iterdir()))

    for number in range(10):
        counts.cells("c", (str(number),), 1)
        counts.drop(lambda _name, _labels: True)
        counts.cells("c", (str(number),), 1)
        with monkeypatch.context() as patched:
            patched.setattr("os.write", lambda file, line: write(file, line[:1]))
            counts.drop(lambda _name, _labels: True)

    assert before == len(list(Path("/dev/fd").iterdir()))


def test_a_gauge_that_was_never_set_shows_what_it_counted_since_it_was_looked_up(tmp_path: Path) -> None:
    """Requests in flight are added and taken away, and never set."""
    counts = Counts(tmp_path)
    gauge = Gauge(counts, "g", "", ["kind"], "latest")
    gauge.of("a")[0] += 2.0

    assert {"a": 2.0} == values(counts, gauge)
    assert counts.cells("g", ("a",), 2)[1] > 0


def test_series_of_metrics_are_looked_up_anew_once_they_were_dropped() -> None:
    counts = Counts(None)
    counter, histogram = Counter(counts, "c_total", "", []), Histogram(counts, "h", "", [], BOUNDS)
    gauge = Gauge(counts, "g", "", [], "sum")
    for _ in range(2):
        counter.of()[0] += 1.0
        histogram.of().observe(0.1)
        gauge.set(3.0)
        shown = text(counts, counter, histogram, gauge)
        counts.drop(lambda _name, _labels: True)
        for one in (counter, histogram, gauge):
            one.forget()

    assert "c_total 1.0" in shown
    assert "h_count 1.0" in shown
    assert "g 3.0" in shown


def places(folder: Path) -> dict[str, tuple[int, int]]:
    """Where the cells of each series begin, and how many they are, as the file says."""
    (file,) = folder.glob("*.series")
    lines = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    return {labels[0]: (at, count) for _, labels, at, count, _ in lines}


CHUNK = (1 << 16) // 8


def test_what_is_left_of_a_chunk_is_used_by_smaller_series(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    for label, size in {"a": CHUNK - 10, "b": 20, "c": 4, "d": 6, "e": 1}.items():
        counts.cells("c", (label,), size)[0] += 1.0

    assert {
        "a": (0, CHUNK - 10), "b": (CHUNK, 20), "c": (CHUNK - 10, 4), "d": (CHUNK - 6, 6), "e": (CHUNK + 20, 1)
    } == places(tmp_path)  # fmt: skip
    (cells,) = tmp_path.glob("*.cells")
    assert 2 * (1 << 16) == cells.stat().st_size
    assert counts._file is not None
    assert [] == counts._file._free


def test_a_chunk_is_filled_to_its_last_cell(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("a",), CHUNK)
    (cells,) = tmp_path.glob("*.cells")
    before = cells.stat().st_size
    counts.cells("c", ("b",), 1)

    assert counts._file is not None
    assert {"a": (0, CHUNK), "b": (CHUNK, 1)} == places(tmp_path)
    assert (1 << 16, 2 << 16, []) == (before, cells.stat().st_size, counts._file._free)


@pytest.mark.parametrize(("size", "chunks"), [(CHUNK, 2), (CHUNK + 1, 3), (2 * CHUNK, 3), (2 * CHUNK + 1, 4)])
def test_a_series_larger_than_a_chunk_gets_as_many_as_it_needs(
    size: int, chunks: int, tmp_path: Path
) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("a",), 1)
    large = counts.cells("c", ("b",), size)
    large[-1] = 7.0

    (cells,) = tmp_path.glob("*.cells")
    assert (size, chunks << 16) == (len(large), cells.stat().st_size)
    assert {"a": (0, 1), "b": (CHUNK, size)} == places(tmp_path)
    assert 7.0 == plain(counts.counted()[0])["c"]["b",][-1]


def test_who_takes_over_uses_the_gaps_after_a_minute_and_zeroes_what_was_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("localrank_service.telemetry.counts.time.monotonic", lambda: now[0])
    dead = Counts(tmp_path)
    for label in "abcd":
        dead.cells("c", (label,), 3)[2] = 5.0
    dead.drop(lambda _name, labels: labels[0] in "bd")
    assert dead._file is not None
    os.close(dead._file._lock)

    heir = Counts(tmp_path)
    heir.cells("c", ("at once",), 1)
    now[0] += 60.5
    later = heir.cells("c", ("later",), 3)
    behind = heir.cells("c", ("behind",), 2)

    assert {"a": (0, 3), "c": (6, 3), "at once": (9, 1), "later": (3, 3), "behind": (10, 2)} == places(
        tmp_path
    )
    assert ([0.0] * 3, [0.0] * 2) == (list(later), list(behind))
    assert 5.0 == heir.cells("c", ("a",), 3)[2] == heir.cells("c", ("c",), 3)[2]


def test_only_numbers_that_last_are_inherited(tmp_path: Path) -> None:
    dead = Counts(tmp_path)
    dead.cells("counter", (), 2)[1] = 5.0
    dead.cells("gauge", (), 2, lasting=False)[1] = 5.0
    assert dead._file is not None
    os.close(dead._file._lock)

    heir = Counts(tmp_path)

    assert [[0.0, 5.0], [0.0, 0.0]] == [list(heir.cells(name, (), 2)) for name in ("counter", "gauge")]
    assert 1 == len(heir.counted())


def test_the_living_and_the_dead_are_told_apart(tmp_path: Path) -> None:
    dead, alive = Counts(tmp_path), Counts(tmp_path)
    for counts in (dead, alive):
        counts.cells("c", (), 1)
    assert dead._file is not None
    os.close(dead._file._lock)

    assert [False, True] == [one.alive for one in alive.counted()]
    assert [True] == [one.alive for one in Counts(None).counted()]


def test_series_that_cannot_be_shared_are_shown_by_this_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counts, other = Counts(tmp_path), Counts(tmp_path)
    counts.cells("c", ("shared",), 1)[0] = 1.0
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr("os.write", lambda file, line: write(file, line[:-1]))
        own = counts.cells("c", ("own",), 2)
    own[1] = 2.0

    assert counts.cells("c", ("own",), 2) is own
    assert ["cannot share the series c('own',) with other workers: the disk is full"] == caplog.messages
    shown = [plain(one)["c"] for one in counts.counted() if "c" in plain(one)]
    assert [{("shared",): [1.0]}, {("own",): [0.0, 2.0]}] == shown
    assert [{("shared",): [1.0]}] == [plain(one)["c"] for one in other.counted() if "c" in plain(one)]
    counts.drop(lambda _name, labels: labels == ("own",))
    assert [0.0, 0.0] == list(counts.cells("c", ("own",), 2))


def test_a_folder_that_cannot_be_used_is_said_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    counts = Counts(tmp_path / "file")
    counts.cells("c", (), 1)[0] += 1.0

    assert [f"cannot share counts with other workers: {tmp_path / 'file'}: File exists"] == caplog.messages
    assert [{"c": {(): [1.0]}}] == [plain(one) for one in counts.counted()]


def test_series_are_read_again_only_if_some_were_added(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    counts.cells("c", ("a",), 1)[0] = 1.0
    counts.counted()
    (before,) = counts._read.values()
    counts.cells("c", ("a",), 1)[0] = 2.0
    shown = plain(counts.counted()[0])
    (same,) = counts._read.values()
    counts.cells("c", ("b",), 1)
    more = plain(counts.counted()[0])

    assert before is same
    assert ({("a",): [2.0]}, {("a",): [2.0], ("b",): [0.0]}) == (shown["c"], more["c"])
