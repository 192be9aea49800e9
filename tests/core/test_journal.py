"""Files of records: what was written whole is read, whatever else stands there."""

from __future__ import annotations

import json
import random
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank import journal as journal_module
from localrank.errors import InvalidData
from localrank.journal import FEEDBACK, MAGIC, Logged, RecordFile, file_name, frame, journals_in, size_of

if TYPE_CHECKING:
    from pathlib import Path

SCORES = np.array([0.5, -1.25])


def one(number: int, **more: Any) -> bytes:
    members = {"number": number, "arrays": {"scores": ["<f8", [2]]}, **more}
    return b"".join(frame(json.dumps(members).encode(), [SCORES.tobytes()]))


def numbers(journal: RecordFile) -> list[int]:
    return [record.members["number"] for record in journal.records()]


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(one(1, text="ü\n") + one(2))

    first, second = RecordFile(path).records()

    assert (1, "ü\n", 2) == (first.members["number"], first.members["text"], second.members["number"])
    np.testing.assert_array_equal(SCORES, first.arrays["scores"])


def test_a_file_that_ends_anywhere_loses_its_last_record_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    whole = one(1) + one(2)
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        journal = RecordFile(path)

        assert [1, 2][: end // len(one(1))] == numbers(journal)
        assert (0, end % len(one(1))) == (journal.damaged, journal.torn)


def test_a_damaged_record_costs_itself_wherever_the_damage_is(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    whole = one(1) + one(2) + one(3)
    size = len(one(1))
    for at in range(size, 2 * size):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        journal = RecordFile(path)

        assert [1, 3] == numbers(journal)
        assert (1, 0) == (journal.damaged, journal.torn)


@given(st.binary(max_size=300), st.integers(0, 2**32))
def test_no_bytes_make_it_fail(tmp_path_factory: pytest.TempPathFactory, junk: bytes, seed: int) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.journal"
    whole = bytearray(one(1) + junk + one(2))
    rng = random.Random(seed)
    for _ in range(rng.randrange(4)):
        whole[rng.randrange(8, len(whole))] = rng.randrange(256)
    path.write_bytes(whole)

    assert set(numbers(RecordFile(path))) <= {1, 2}


@pytest.mark.parametrize(
    "head",
    [
        b"[]",
        b"{",
        b'{"arrays": {"scores": ["<f8", [3]]}}',
        b'{"arrays": {"scores": ["<f8", [1]]}}',
        b'{"arrays": {"scores": ["<f8", [-2]]}}',
        b'{"arrays": {"scores": ["|O", [2]]}}',
        b'{"arrays": {"scores": ["<f8", [99999999999, 99999999999]]}}',
        b'{"arrays": {"scores": 3}}',
        b'{"arrays": 3}',
        b"[" * 100_000,
    ],
)
def test_a_head_that_does_not_describe_its_tail_is_damage(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(b"".join(frame(head, [SCORES.tobytes()])) + one(7))
    journal = RecordFile(path)

    assert [7] == numbers(journal)
    assert 1 == journal.damaged


def test_arrays_of_every_type_and_shape_come_back(tmp_path: Path) -> None:
    arrays = {
        "floats": np.arange(6, dtype="<f4").reshape(2, 3),
        "none": np.zeros((0, 3), "<f8"),
        "short": np.array([-1, 2], "<i4"),
        "number": np.array(7, "<i8"),
    }
    head = {"arrays": {name: [one.dtype.str, list(one.shape)] for name, one in arrays.items()}}
    path = tmp_path / "a.journal"
    path.write_bytes(b"".join(frame(json.dumps(head).encode(), [one.tobytes() for one in arrays.values()])))

    (record,) = RecordFile(path).records()

    assert list(arrays) == list(record.arrays)
    for name, one in arrays.items():
        np.testing.assert_array_equal(one, record.arrays[name])
        assert (one.dtype, one.shape) == (record.arrays[name].dtype, record.arrays[name].shape)


def test_a_frame_is_as_long_as_its_parts() -> None:
    """Magic, three numbers of 32 bits, the head, the arrays."""
    parts = frame(b'{"number": 1}', [b"abc", b"", b"12345678"])

    assert 8 + 3 * 4 + 13 + 3 + 8 == size_of(parts) == len(b"".join(parts))


def with_floats(content: bytes) -> bytes:
    """A frame whose features are these bytes: callers choose them."""
    content += bytes(-len(content) % 4)
    head = {"number": 1, "arrays": {"features": ["<f4", [len(content) // 4]]}}
    return b"".join(frame(json.dumps(head).encode(), [content]))


@pytest.mark.parametrize("damage", ["torn", "length", "magic", "check"])
def test_no_damage_makes_a_record_of_what_a_caller_sent(tmp_path: Path, damage: str) -> None:
    forged = one(666)
    path = tmp_path / "a.journal"
    whole = with_floats(b"\0\0\0\0" + forged + forged)
    damaged = bytearray(whole)
    if damage == "torn":
        damaged = damaged[:-5]
    else:
        damaged[{"length": 8, "magic": 3, "check": 16}[damage]] ^= 0xFF
    path.write_bytes(one(0) + damaged + one(2))
    journal = RecordFile(path)

    assert [0, 2] == numbers(journal)
    assert (1, 0) == (journal.damaged, journal.torn)


@pytest.mark.parametrize(
    "tail", [MAGIC, MAGIC[:-1], MAGIC[:-1] + b"\0", 3 * MAGIC, MAGIC[:-1] + b"\0\n", b"x" + MAGIC]
)
def test_arrays_that_hold_the_magic_come_back(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.journal"
    content = with_floats(tail)
    path.write_bytes(content + one(2))

    first, _ = RecordFile(path).records()

    assert 1 == content.count(MAGIC)
    assert tail == first.arrays["features"].tobytes()[: len(tail)]


def test_many_magics_are_passed_over_in_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that says that it is long is read up to the next magic only."""
    path = tmp_path / "a.journal"
    false = MAGIC + (2**23).to_bytes(4, "little") * 2 + bytes(5000)
    path.write_bytes(one(0) + false * 2000 + bytes(2**24) + one(2))
    checked: list[int] = []
    crc32 = zlib.crc32

    def counting(content: bytes, before: int = 0) -> int:
        checked.append(len(content))
        return crc32(content, before)

    monkeypatch.setattr(zlib, "crc32", counting)
    journal = RecordFile(path)

    assert [0, 2] == numbers(journal)
    assert sum(checked) < 2 * path.stat().st_size
    assert 2000 == journal.damaged


@pytest.mark.parametrize("before", range(20))
def test_a_magic_is_found_wherever_the_pieces_that_are_read_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(journal_module, "_PIECE", 10)
    path = tmp_path / "a.journal"
    path.write_bytes(one(1) + b"x" * before + b"\x93LR" + one(2) + b"\x93LRJ")
    journal = RecordFile(path)

    assert [1, 2] == numbers(journal)
    assert (1, 4) == (journal.damaged, journal.torn)


def test_a_journal_that_is_read_again_counts_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(one(1) + b"damage" + one(2) + b"torn")
    journal = RecordFile(path)

    for _ in range(2):
        assert [1, 2] == numbers(journal)
        assert (1, 4) == (journal.damaged, journal.torn)


def test_lengths_are_compared_with_the_file_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(MAGIC + b"\xff" * 12 + one(1))

    assert [1] == numbers(RecordFile(path))


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk")

    with pytest.raises(
        InvalidData, match=r"notes\.txt: expected a file of logged records, found another one"
    ):
        numbers(RecordFile(path))
    with pytest.raises(InvalidData, match="No such file"):
        numbers(RecordFile(tmp_path / "none"))


def test_a_folder_is_its_files_of_records_in_the_order_of_their_age(tmp_path: Path) -> None:
    names = [file_name(1_700_000_000_000_000 + second, 10 - second) for second in range(3)]
    for name in reversed(names):
        (tmp_path / name).touch()
    (tmp_path / "README").write_text("x")
    (tmp_path / file_name(1, 2)).mkdir()
    (tmp_path / file_name(1, 3)).symlink_to(tmp_path / "README")

    assert names == [path.name for path in journals_in(tmp_path)]


def shown(**changed: Any) -> bytes:
    members = {
        "kind": "impression",
        "time": 1.5,
        "request_id": "r",
        "query": 0,
        "query_id": "q",
        "session_id": None,
        "model": "m",
        "version": 1,
        "contract": "c",
        "shown": 2,
        "ids": None,
        "degraded": None,
        "arrays": {"features": ["<f4", [2, 1]], "scores": ["<f8", [2]], "order": ["<i4", [2]]},
        **changed,
    }
    arrays = [np.array([[1], [2]], np.float32), SCORES, np.array(members.pop("places", [1, 0]), "<i4")]
    return b"".join(frame(json.dumps(members).encode(), [array.tobytes() for array in arrays]))


@pytest.mark.parametrize(
    "changed",
    [
        {"places": [1, 1]},
        {"places": [0, 2]},
        {"shown": 3},
        {"shown": -1},
        {"offset": -1},
        {"pinned": 3},
        {"pinned": [1]},
        {"ids": ["a"]},
        {"ids": "ab"},
        {"request_id": 7},
        {"query_id": []},
        {"contract": None},
        {"arrays": {"features": ["<f4", [1, 2]], "scores": ["<f8", [2]], "order": ["<i4", [2]]}},
        {"arrays": {"features": ["<f4", [2, 1]], "scores": ["<f8", [2]], "other": ["<i4", [2]]}},
    ],
)
def test_an_impression_that_contradicts_itself_is_damage(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / file_name(1, 1)
    path.write_bytes(shown() + shown(**changed))
    logged = Logged([tmp_path])

    assert 1 == len(list(logged.impressions()))
    assert 1 == logged.damaged


@pytest.mark.parametrize(
    "changed",
    [{"grade": -1, "click": False}, {"click": False}, {"id": None}, {"request_id": None}, {"event_id": {}}],
)
def test_feedback_that_says_nothing_is_damage(tmp_path: Path, changed: dict[str, Any]) -> None:
    event = {"kind": "feedback", "time": 1, "request_id": "r", "query": 0, "id": "d", "click": True}
    path = tmp_path / file_name(1, 1, FEEDBACK)
    path.write_bytes(b"".join(b"".join(frame(json.dumps(one).encode())) for one in (event, event | changed)))
    logged = Logged([path])

    assert 1 == len(list(logged.feedback()))
    assert 1 == logged.damaged


def test_foreign_files_in_the_folder_are_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / file_name(1, 1)).write_bytes(shown())
    foreign = tmp_path / file_name(2, 2)
    foreign.write_text("not ours")
    gone = tmp_path / file_name(3, 3)
    gone.touch()
    logged = Logged([tmp_path])
    gone.unlink()

    assert 1 == len(list(logged.impressions()))
    assert [foreign] == logged.foreign
    with pytest.raises(InvalidData, match="found another one"):
        list(Logged([foreign]).impressions())


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="expected files of logged records"):
        Logged([tmp_path])
