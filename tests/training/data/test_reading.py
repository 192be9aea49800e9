from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from localrank.errors import InvalidData
from localrank_training.data import letor, rows, scanning, sources
from localrank_training.data.columns import Columns
from localrank_training.data.queries import QuerySet, concatenated
from localrank_training.data.reading import read
from localrank_training.data.writing import convert

if TYPE_CHECKING:
    from collections.abc import Callable

    Compress = Callable[[bytes], bytes]

TINY = """\
2 qid:a 1:0.5 3:1 # d1
0 qid:b 2:7
1 qid:a 1:0.25 # d3
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return written(tmp_path / "tiny.txt", TINY)


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(*paths: Path, n_features: int | None = None) -> str:
    with pytest.raises(InvalidData) as caught:
        read(paths, n_features=n_features)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_documents_of_a_query_come_together_in_their_order(tiny: Path) -> None:
    queries = read([tiny])

    assert ("a", "b") == queries.query_ids
    assert [0, 2, 3] == queries.offsets.tolist()
    assert [[0.5, 0, 1], [0.25, 0, 0], [0, 7, 0]] == queries.documents.tolist()
    assert [2, 1, 0] == queries.labels.tolist()
    assert [0, 2, 1] == queries.lines.tolist()
    assert (" d1", " d3", "") == queries.comments
    assert ("f1", "f2", "f3") == queries.feature_names
    assert np.float32 == queries.documents.dtype
    assert queries.documents.flags.c_contiguous


def test_a_single_path_needs_no_list(tiny: Path) -> None:
    assert 3 == read(tiny).n_docs
    assert 3 == read(str(tiny)).n_docs


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.replace("\n", "\r\n"), "Windows line ends"),
        (lambda t: t.rstrip("\n"), "no final line feed"),
        (lambda t: t.replace("\n", "\n\n \t\n# a remark\n"), "blank lines and remarks"),
        (lambda t: t.replace(" # ", "   # "), "spaces"),
        (lambda t: "\ufeff" + t, "a byte order mark"),
    ],
)
def test_what_editors_do_to_text_changes_nothing(
    tmp_path: Path, tiny: Path, change: Callable[[str], str], reason: str
) -> None:
    expected = read([tiny])

    actual = read([written(tmp_path / "changed.txt", change(TINY))])

    np.testing.assert_array_equal(expected.documents, actual.documents, err_msg=reason)
    np.testing.assert_array_equal(expected.lines, actual.lines)
    assert expected.comments == actual.comments


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compression_is_seen_in_the_bytes_not_in_the_name(
    tmp_path: Path, tiny: Path, compress: Compress
) -> None:
    once = compress(TINY.encode())
    plain = read([tiny])

    packed = read([written(tmp_path / "data.txt", once)])
    members = read([written(tmp_path / "data2.txt", once + compress(b"0 qid:c 1:1\n"))])

    np.testing.assert_array_equal(plain.documents, packed.documents)
    assert (*plain.query_ids, "c") == members.query_ids


def test_a_folder_is_its_partitions_in_the_order_of_their_names(tmp_path: Path) -> None:
    written(tmp_path / "part-2", "0 qid:2 1:1\n")
    written(tmp_path / "part-1.gz", gzip.compress(b"1 qid:1 1:1\n"))
    written(tmp_path / "_SUCCESS", "")
    written(tmp_path / ".part-1.crc", "crc")

    queries = read([tmp_path])

    assert ("1", "2") == queries.query_ids
    assert [1, 0] == queries.labels.tolist()
    assert [0, 1] == queries.lines.tolist()


def test_names_come_from_the_sidecar_of_a_file_or_of_its_folder(tmp_path: Path, tiny: Path) -> None:
    written(tmp_path / "features.txt", "bm25\npage rank\nlength\n")

    assert ("bm25", "page rank", "length") == read([tmp_path]).feature_names
    assert ("f1", "f2", "f3") == read([tiny]).feature_names

    written(tmp_path / "tiny.txt.names", "a\nb\nc\nd\n")

    named = read([tiny])
    assert ("a", "b", "c", "d") == named.feature_names
    assert (3, 4) == named.documents.shape


def test_features_may_be_more_than_the_text_shows(tiny: Path) -> None:
    queries = read([tiny], n_features=5)

    assert (3, 5) == queries.documents.shape
    assert ("f1", "f2", "f3", "f4", "f5") == queries.feature_names


def test_lines_cut_anywhere_by_blocks_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    text = "".join(
        f"{i % 3} qid:{i // 7} " + " ".join(f"{j}:{rng.random():.4f}" for j in range(1, 9)) + f" #d{i}\n"
        for i in range(200)
    )
    path = written(tmp_path / "data.txt", text)
    expected = read([path])

    for block, piece in ((50, 17), (1000, 64), (1, 1000)):
        monkeypatch.setattr(sources, "BLOCK", block)
        monkeypatch.setattr(sources, "_PIECE", piece)
        actual = read([path])

        np.testing.assert_array_equal(expected.documents, actual.documents)
        assert expected.comments == actual.comments
        assert expected.query_ids == actual.query_ids

    bad = written(tmp_path / "bad.txt", text + "1 qid:x 1:oops\n")
    assert refused(bad).startswith(f"{bad}:201:11: ")


def test_a_very_long_line_is_read(tmp_path: Path) -> None:
    n = 90_000
    line = "1 qid:1 " + " ".join(f"{i}:0.12345678901234567890" for i in range(1, n + 1)) + "\n"

    queries = read([written(tmp_path / "long.txt", line)])

    assert (1, n) == queries.documents.shape
    assert bool((queries.documents == np.float32(0.12345678901234567890)).all())


def test_progress_counts_bytes_to_the_end(tiny: Path) -> None:
    told: list[tuple[str, int, int]] = []

    read([tiny], progress=lambda task, done, total: told.append((task, done, total)))

    assert ("reading", len(TINY), len(TINY)) == told[-1]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_equal_to_scikit_learn(tmp_path: Path, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 400)), int(rng.integers(1, 60))
    values = rng.standard_normal((n, m)) * 10.0 ** rng.integers(-12, 12, (n, m))
    values[rng.random((n, m)) > density] = 0
    labels = rng.choice([0, 1, 2.5, 4], n)
    queries = rng.integers(0, 20, n)
    path = tmp_path / "data.txt"
    with path.open("wb") as file:
        dump_svmlight_file(values, labels, file, query_id=queries, zero_based=False)
    X, y, q = load_svmlight_file(str(path), query_id=True, dtype=np.float32, n_features=m, zero_based=False)

    ours = read([path], n_features=m)

    np.testing.assert_array_equal(X.toarray()[ours.lines], ours.documents)
    np.testing.assert_array_equal(y[ours.lines], ours.labels)
    assert [str(i) for i in q[ours.lines]] == [ours.query_ids[i] for i in ours.query_of]


# ------------------------------------------------------------------------------------------------------ bad input


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no.txt'}: no such file or folder" == refused(tmp_path / "no.txt")


def test_no_paths_are_no_data() -> None:
    assert "at least one file" in refused()


@pytest.mark.parametrize(
    "content", [b"", gzip.compress(b""), zstandard.compress(b"")], ids=["plain", "gzip", "zstd"]
)
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path / "empty.txt", content)

    assert f"{path}: expected judged documents, found " in refused(path)


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    assert "an empty file" in refused(written(tmp_path / "a", ""))
    assert "only blank lines and comments" in refused(written(tmp_path / "b", "\n# nothing\n"))


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\x7fELF\x02\x01\x00\x00", "a binary file (byte 7 is 0x00)"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"BZh91AY", "bzip2"),
        (b"\xff\xfe1\x00", "UTF-16 text"),
        (b"\x93NUMPY\x01\x00", "a numpy array"),
    ],
)
def test_a_binary_file_is_refused_by_what_it_is(tmp_path: Path, head: bytes, found: str) -> None:
    path = written(tmp_path / "data.txt", head)

    assert f"{path}: expected LETOR text or CSV (plain, gzip or zstd), or Parquet, found {found}" == refused(
        path
    )


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("keep", [0.3, 0.99])
def test_a_truncated_file_is_refused(tmp_path: Path, compress: Compress, keep: float) -> None:
    rng = np.random.default_rng(0)
    packed = compress("".join(f"0 qid:{i} 1:{rng.random()}\n" for i in range(2000)).encode())
    path = written(tmp_path / "data.txt", packed[: int(len(packed) * keep)])

    assert "found a truncated file" in refused(path)
    assert str(path) in refused(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TINY.encode()))
    packed[15] ^= 0xFF

    assert "expected a whole gzip file, found " in refused(written(tmp_path / "data.txt.gz", bytes(packed)))


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "_SUCCESS", "")

    assert f"{tmp_path}: expected a folder with LETOR text" in refused(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)

    assert f"{folder}: cannot be read: Permission denied" == refused(folder)


def test_what_the_system_says_of_a_folder_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", deny)

    assert f"{tmp_path}: cannot be read: Permission denied" == refused(tmp_path)


def test_a_query_in_two_files_is_refused(tmp_path: Path) -> None:
    a = written(tmp_path / "a.txt", "0 qid:1 1:1\n0 qid:2 1:1\n")
    b = written(tmp_path / "b.txt", "0 qid:3 1:1\n\n0 qid:2 1:1\n")

    expected = f"{b}:3: expected every query in one file, found query '2', which is also in {a}"
    assert expected == refused(tmp_path)
    assert expected == refused(a, b)


def test_the_same_file_twice_is_refused(tiny: Path) -> None:
    assert "expected every query in one file" in refused(tiny, tiny)


def test_an_index_of_a_million_allocates_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "wide.txt", "0 qid:1 1:1\n0 qid:1 1000000:1\n")

    assert f"{path}:2:9: expected at most 100000 features, found index 1000000" == refused(path)


def test_a_matrix_that_no_disk_holds_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "wide.txt", "0 qid:1 99999:1\n" * 50)
    monkeypatch.setattr(rows, "HELD", 1 << 20)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))

    assert "expected room for 0.0 GiB of documents that do not fit into memory" in refused(path)


def test_more_features_than_asked_for_are_refused(tiny: Path, tmp_path: Path) -> None:
    assert f"{tiny}:1:15: expected at most 2 features, found index 3" == refused(tiny, n_features=2)
    assert "found 0 asked for" in refused(tiny, n_features=0)

    written(tmp_path / "tiny.txt.names", "a\nb\n")
    assert f"{tiny}:1:15: expected at most 2 features, found index 3" == refused(tiny)


def dense(width: int, query: str, lines: int = 3) -> str:
    return "".join(
        f"0 qid:{query} " + " ".join(f"{j}:{j % 2}" for j in range(1, width + 1)) + "\n" for _ in range(lines)
    )


@pytest.mark.parametrize("width", [4, 6])
def test_a_ragged_line_in_a_dense_file_is_refused(tmp_path: Path, width: int) -> None:
    path = written(tmp_path / "a.txt", dense(5, "1") + dense(width, "2", 1) + dense(5, "3"))

    assert f"{path}:4: expected 5 features as on most lines" in refused(path)
    assert f"found {width}; if an absent feature is a zero here, add --sparse" in refused(path)


def test_a_sparse_file_may_have_lines_of_any_width(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "0 qid:1 1:1 2:1 3:1\n0 qid:1 1:1\n0 qid:1\n1 qid:1 3:1\n")

    assert [[1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1]] == read([path]).documents.tolist()


def test_dense_files_of_different_widths_are_refused(tmp_path: Path) -> None:
    a = written(tmp_path / "a.txt", dense(5, "1"))
    b = written(tmp_path / "b.txt", dense(4, "2"))

    assert f"{b}: expected 5 features on every line, as in {a}, found 4" == refused(a, b)


def test_a_dense_file_must_have_the_features_that_are_known(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", dense(5, "1"))
    message = (
        f"{path}: expected 6 features, found 5 on every line; if absent features are zeros here, add --sparse"
    )

    assert message == refused(path, n_features=6)

    written(tmp_path / "a.txt.names", "a\nb\nc\nd\ne\nf\n")
    assert message == refused(path)


def test_files_that_name_features_differently_are_refused(tmp_path: Path) -> None:
    a = written(tmp_path / "a.txt", dense(2, "1"))
    b = written(tmp_path / "b.txt", dense(2, "2"))
    written(tmp_path / "a.txt.names", "x\ny\n")
    written(tmp_path / "b.txt.names", "x\nz\n")

    message = refused(a, b)

    assert f"{b}.names: expected the features of {a}.names" in message
    assert message.endswith("found 'z' instead of 'y' as feature 2")


def test_names_fewer_than_the_features_before_are_refused(tmp_path: Path) -> None:
    a = written(tmp_path / "a.txt", "0 qid:1 3:1\n")
    b = written(tmp_path / "b.txt", "0 qid:2 1:1\n")
    written(tmp_path / "b.txt.names", "x\n")

    assert f"{b}.names: expected the 3 features of the files before it, found 1" == refused(a, b)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a\n\nb\n", ":2: expected a feature name, found a blank line"),
        ("a\nb\na\n", ":3: expected every name once, found 'a' as on line 1"),
        ("", ": expected feature names, found an empty file"),
        (b"a\nb\xff\n", ": expected feature names in UTF-8, found the byte 0xff on line 2"),
        (b"\n\xff", ": expected feature names in UTF-8, found the byte 0xff on line 2"),
        (b"\xef\xbb\xbfa\n\xff", ": expected feature names in UTF-8, found the byte 0xff on line 2"),
    ],
)
def test_bad_names_are_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    path = written(tmp_path / "x.names", content)

    with pytest.raises(InvalidData) as caught:
        scanning.read_names(path)

    assert f"{path}{words}" == str(caught.value)


# ------------------------------------------------------------------------------------------------------ real data

COUNTS = {
    "MQ2008": (15_211, 784, 46),
    "OHSUMED": (16_140, 106, 45),
    "OHSUMED-raw": (16_140, 106, 45),
    "MSLR-sample": (15_118, 135, 136),
    "imat2009-sample": (947, 103, 245),
    "lightgbm-example": (3_773, 251, 300),
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", COUNTS)
def test_real_sets_have_their_known_sizes(name: str, real_data: Path) -> None:
    queries = read([real_data / name])

    assert COUNTS[name] == (queries.n_docs, len(queries), queries.n_features)
    X = np.vstack(
        [
            load_svmlight_file(str(file), query_id=True, dtype=np.float32, n_features=COUNTS[name][2])[
                0
            ].toarray()
            for file in sorted((real_data / name).iterdir())
        ]
    )
    np.testing.assert_array_equal(X[queries.lines], queries.documents)


def test_every_document_knows_its_file_and_line(tmp_path: Path) -> None:
    first = written(tmp_path / "a.txt", "# head\n1 qid:1 1:1\n\n0 qid:2 1:2\n1 qid:1 1:3\n")
    second = written(tmp_path / "b.csv", "label,qid,f1\n2,3,4\n0,4,5\n")

    queries = read([first, second])

    assert [
        f"{first}:2, query '1'",
        f"{first}:5, query '1'",
        f"{first}:4, query '2'",
        f"{second}:1, query '3'",
        f"{second}:2, query '4'",
    ] == [queries.where(document) for document in range(5)]
    assert f"{second}:2, query '4'" == queries.select([3, 1]).where(0)


# --------------------------------------------------------------------------------------------------- limits, order


@pytest.mark.parametrize("n", [1, 100_000])
def test_one_feature_to_a_hundred_thousand_may_be_asked_for(tmp_path: Path, n: int) -> None:
    path = written(tmp_path / "a.txt", "1 qid:1 1:1\n")

    if n == 1:
        assert (1, 1) == read([path], n_features=n).documents.shape
    with pytest.raises(InvalidData, match=f"expected 1 to 100000 features, found {n + 100_000} asked for"):
        read([path], n_features=n + 100_000)
    with pytest.raises(InvalidData, match="found -1 asked for"):
        read([path], n_features=-1)


def test_text_without_any_value_has_no_features(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "1 qid:1\n0 qid:1\n")

    assert f"{path}: expected at least one feature, found none" == refused(path)
    assert [[0, 0], [0, 0]] == read([path], n_features=2, columns=Columns(sparse=True)).documents.tolist()


def test_progress_goes_on_from_file_to_file(tmp_path: Path) -> None:
    first = written(tmp_path / "a.txt", "1 qid:1 1:1\n" * 3)
    second = written(tmp_path / "b.txt", "1 qid:2 1:1\n" * 5)
    told: list[tuple[str, int, int]] = []

    read([first, second], progress=lambda task, done, total: told.append((task, done, total)))

    assert {("reading", 96)} == {(task, total) for task, _, total in told}
    assert {36, 96} <= {done for _, done, _ in told}
    assert min(done for _, done, _ in told) >= 36
    assert ("reading", 96, 96) == told[-1]


def names_in(tmp_path: Path, name: str, query: str, names: list[str]) -> Path:
    line = f"1 qid:{query} " + " ".join(f"{i}:{i}" for i in range(1, len(names) + 1)) + "\n"
    written(tmp_path / f"{name}.names", "\n".join(names) + "\n")
    return written(tmp_path / name, line)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x", "y"], "found nothing instead of 'z' as feature 3"),
        (["x", "y", "z", "w"], "found 'w' instead of nothing as feature 4"),
        (["y", "x", "z"], "found 'y' instead of 'x' as feature 1"),
    ],
)
def test_the_first_name_that_differs_is_named(tmp_path: Path, names: list[str], words: str) -> None:
    a = names_in(tmp_path, "a.txt", "1", ["x", "y", "z"])
    b = names_in(tmp_path, "b.txt", "2", names)

    assert f"{b}.names: expected the features of {a}.names, {words}" == refused(a, b)


def test_a_file_before_the_names_may_have_as_many_features(tmp_path: Path) -> None:
    a = written(tmp_path / "a.txt", "1 qid:1 1:1 2:2\n")
    b = names_in(tmp_path, "b.txt", "2", ["x", "y"])

    assert ("x", "y") == read([a, b]).feature_names
    assert [[1, 2], [1, 2]] == read([a, b]).documents.tolist()


def test_a_query_that_another_file_has_is_named_with_its_line(tmp_path: Path) -> None:
    a = written(tmp_path / "a.txt", "0 qid:1 1:1\n")
    b = written(tmp_path / "b.txt", "# head\n0 qid:3 1:1\n0 qid:3 1:2\n0 qid:1 1:1\n0 qid:1 1:1\n")

    assert f"{b}:4: expected every query in one file, found query '1', which is also in {a}" == refused(a, b)


def test_names_may_begin_with_a_byte_order_mark_and_need_no_last_line_feed(tmp_path: Path) -> None:
    assert ("a", "b") == scanning.read_names(written(tmp_path / "x", b"\xef\xbb\xbfa\n b \r\n"))
    assert ("a", "b") == scanning.read_names(written(tmp_path / "y", "a\nb"))
    with pytest.raises(InvalidData, match=r"z: cannot be read: No such file or directory"):
        scanning.read_names(tmp_path / "z")


def test_a_mapped_set_comes_in_the_order_of_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_CELLS", 4)  # two documents at a time
    path = written(
        tmp_path / "a.txt",
        "2 qid:a 1:1 2:2 # x\n0 qid:b 1:3 2:4\n1 qid:a 1:5 2:6\n0 qid:c 1:7 2:8\n0 qid:b 1:9 2:0\n",
    )
    expected = read([path])
    convert([path], tmp_path / "m", to="mapped")
    other = written(tmp_path / "b.txt", "1 qid:z 1:1 2:1\n")

    found = read([tmp_path / "m", other])

    assert [*expected.lines.tolist(), 5] == found.lines.tolist()
    np.testing.assert_array_equal(expected.documents, found.documents[:5])
    assert [*(expected.comments or ()), ""] == list(found.comments or ())
    assert found.origin is None
    sizes = [len(block) for block in scanning.blocks_of(expected, np.arange(3))]
    assert [2, 2, 1] == sizes
    assert [1, 1, 1, 1, 1] == [len(block) for block in _wide_blocks(expected, monkeypatch)]


def _wide_blocks(queries: QuerySet, monkeypatch: pytest.MonkeyPatch) -> list[scanning.Block]:
    """The blocks of a set that is wider than what is handled at a time."""
    monkeypatch.setattr(scanning, "_CELLS", 1)
    return list(scanning.blocks_of(queries, np.arange(len(queries))))


def test_a_mapped_set_has_the_features_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "2 qid:a 1:1 2:2\n")
    convert([path], tmp_path / "m", to="mapped")

    assert 2 == read([tmp_path / "m"], n_features=2).n_features
    assert f"{tmp_path / 'm'}: expected 3 features, found 2" == refused(tmp_path / "m", n_features=3)
    # Features with names of their own are not counted.
    written(tmp_path / "a.txt.names", "x\ny\n")
    convert([path], tmp_path / "n", to="mapped")
    assert ("x", "y") == read([tmp_path / "n"], n_features=3).feature_names


def test_rows_of_a_table_are_counted_from_block_to_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_training.data.parquet._CELLS_READ", 1)
    n = 150
    table = {
        "label": [i % 2 for i in range(n)],
        "qid": ["a"] * n,
        "x": list(range(n)),
        "docid": [f"d{i}" for i in range(n)],
    }
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table(table), first)
    pq.write_table(pa.table({**table, "qid": ["b"] * n}), second)
    told: list[int] = []

    queries = read([first, second], progress=lambda _task, done, _total: told.append(done))

    assert queries.origin is not None
    assert [*range(1, n + 1), *range(1, n + 1)] == queries.origin.numbers.tolist()
    assert [0, n] == queries.origin.starts.tolist()
    assert (f"{first}:150", f"{second}:1") == (queries.origin.of(149), queries.origin.of(150))
    # 64 rows at a time: the share of the file that has been read is 64, 128 and 150 of 150.
    size = first.stat().st_size
    assert [int(size * 64 / n), int(size * 128 / n), size] == told[:3]
    assert 2 * size == told[-1]


def test_a_block_writes_its_values_into_rows_of_a_wider_matrix() -> None:
    lines = letor.parse(b"1 qid:1 1:1 3:3\n0 qid:1 2:2\n", name="x")
    block = scanning.Block(lines.labels, lines.queries, None, lines=lines)
    dense = scanning.Block(lines.labels, lines.queries, None, matrix=np.ones((2, 2), np.float32))

    assert [[1, 0, 3, 0], [0, 2, 0, 0]] == block.dense(4).tolist()
    assert [[1, 1, 0], [1, 1, 0]] == dense.dense(3).tolist()
    assert dense.dense(2) is dense.matrix
    rows = np.zeros((4, 3), np.float32)
    block.fill(rows, np.array([3, 0]))
    assert [[0, 2, 0], [0, 0, 0], [0, 0, 0], [1, 0, 3]] == rows.tolist()


# ------------------------------------------------------------------------------------------------- sets in memory


@pytest.fixture
def six() -> QuerySet:
    """Six queries of 1, 4, 2, 3, 1 and 5 documents of two features, with comments."""
    lengths = [1, 4, 2, 3, 1, 5]
    return QuerySet(
        documents=np.arange(32, dtype=np.float32).reshape(16, 2),
        labels=np.arange(16.0),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple("abcdef"),
        feature_names=("f1", "f2"),
        lines=np.arange(16)[::-1].copy(),
        comments=tuple(f"d{i}" for i in range(16)),
    )


@pytest.mark.parametrize(
    ("cells", "portions"),
    [
        (10, [(0, 2), (2, 4), (4, 5), (5, 6)]),  # five documents
        (12, [(0, 2), (2, 5), (5, 6)]),
        (8, [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]),
        (1, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]),
        (1 << 20, [(0, 6)]),
    ],
)
def test_portions_are_as_many_whole_queries_as_fit(
    six: QuerySet, cells: int, portions: list[tuple[int, int]]
) -> None:
    assert portions == list(six.portions(cells))


def test_a_set_is_looked_at_query_by_query(six: QuerySet) -> None:
    assert (6, 16, 2) == (len(six), six.n_docs, six.n_features)
    assert [1, 4, 2, 3, 1, 5] == six.lengths.tolist()
    assert [0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 5, 5, 5] == six.query_of.tolist()
    assert slice(5, 7) == six.span(2)
    assert [5, 6] == six.labels_of(2).tolist()
    assert [[10, 11], [12, 13]] == six.documents_of(2).tolist()
    assert 6 == len(six.lists)
    assert [1, 4, 2, 3, 1, 5] == [len(cloud) for cloud in six.clouds()]
    np.testing.assert_array_equal(six.documents_of(5), six.lists[-1])
    assert [[[10, 11], [12, 13]], [[20, 21]]] == [documents.tolist() for documents in six.lists[2::2]]
    with pytest.raises(IndexError):
        six.lists[6]
    assert six is six.held()
    assert ["query 'a'", "query 'b'", "query 'b'", "query 'f'"] == [six.where(i) for i in (0, 1, 4, 15)]


def test_chosen_queries_keep_everything_of_their_documents(
    six: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for held in (1 << 30, 0):
        monkeypatch.setattr(rows, "HELD", held)

        chosen = six.select([3, 0])

        assert ("d", "a") == chosen.query_ids
        assert [0, 3, 4] == chosen.offsets.tolist()
        assert [7, 8, 9, 0] == chosen.labels.tolist()
        assert [8, 7, 6, 15] == chosen.lines.tolist()
        assert [[14, 15], [16, 17], [18, 19], [0, 1]] == chosen.documents[:].tolist()
        assert chosen.comments is not None
        assert ["d7", "d8", "d9", "d0"] == list(chosen.comments)
        assert ("d8", "d9") == tuple(chosen.comments[1:3])
        assert ("d0", 4) == (chosen.comments[-1], len(chosen.comments))
        assert isinstance(chosen.comments, tuple) == (held > 0)


def test_one_part_is_itself_and_parts_of_other_files_have_no_origin(tmp_path: Path) -> None:
    a, b = (read([written(tmp_path / name, f"1 qid:{name} 1:1\n")]) for name in ("a", "b"))

    assert a is concatenated([a])
    joined = concatenated([a, b])
    assert ("a", "b") == joined.query_ids
    assert joined.origin is None
    assert a.origin is concatenated([a, a.select([0])]).origin


# --------------------------------------------------------------------------------------------------- kinds of files


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x80\x04\x95", "a pickle"),
        (b"\x80\x05\x95", "a pickle"),
        (b"ARROW1", "an Arrow file"),
        (b"\x89HDF", "HDF5"),
        (b"\xfe\xff\x00a", "UTF-16 text"),
        (b"  \n{", "JSON"),
        (b"[1]", "JSON"),
        (b"1 qid:1 1:1\n\x00", "a binary file (byte 13 is 0x00)"),
    ],
)
def test_other_files_are_called_what_they_are(tmp_path: Path, head: bytes, found: str) -> None:
    assert refused(written(tmp_path / "data", head)).endswith(f", found {found}")


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert (
        f"{tmp_path / 'pipe'}: expected a file or a folder, which can be read twice, found neither"
        == refused(tmp_path / "pipe")
    )
    with pytest.raises(InvalidData, match="expected the path of a file or folder, found nothing"):
        read("")


def test_names_and_folders_in_a_folder_are_no_data(tmp_path: Path) -> None:
    names_in(tmp_path, "a.txt", "1", ["x", "y"])
    written(tmp_path / "features.txt", "u\nv\n")
    written(tmp_path / "b.txt", "1 qid:2 1:1 2:2\n")
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "c.txt", "1 qid:3 1:1 2:2\n")

    found = {source.path.name: source.names for source in sources.locate([tmp_path])}

    assert {"a.txt": tmp_path / "a.txt.names", "b.txt": tmp_path / "features.txt"} == found


def test_the_size_of_a_source_is_that_of_its_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "1 qid:1 1:1\n")
    convert([path], tmp_path / "m", to="mapped")

    assert [12, 0] == [source.size for source in sources.locate([path, tmp_path / "m"])]


@pytest.mark.parametrize("first", ["# long\n0 qid:1 1:1\n0 qid:1 1:", "0 qid:1 1:1\n#\n#"])
def test_a_line_that_never_ends_is_refused(tmp_path: Path, first: str) -> None:
    """A small compressed file may hold a line larger than the memory; nobody reads on to the end of it."""
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(first.encode() + b"1" * 2**25, 1, mtime=0)[:-9])

    with pytest.raises(InvalidData) as caught:
        read(path)

    assert f"{path}:3: expected at most 6416384 bytes on a line, found more" == str(caught.value)


def test_a_row_that_never_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(
        gzip.compress(b"label,qid,f1\n" + b"1,a,0\n" * 2**18 + b"1,a," + b"1" * 2**25, 1, mtime=0)
    )

    with pytest.raises(InvalidData) as caught:
        read(path)

    assert f"{path}: expected at most 4194304 bytes in a row, found more" == str(caught.value)


def test_pieces_of_a_file_are_blocks_of_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 8)
    monkeypatch.setattr(sources, "_PIECE", 8)
    (source,) = sources.locate([written(tmp_path / "a.txt", "1 qid:1 1:12\n1 qid:1 1:1234567890123\n")])
    told: list[int] = []

    assert [b"1 qid:1 1:12\n", b"1 qid:1 1:1234567890123\n"] == list(sources.blocks(source, told.append))
    assert [8, 16, 24, 32, 37, 37] == told


def test_the_first_line_is_neither_blank_nor_a_comment(tmp_path: Path) -> None:
    for text, first in (
        ("\n  # c\n\t\n1 qid:1 1:1\n0 qid:1 1:2\n", b"1 qid:1 1:1"),
        ("# c\n", b""),
        ("", b""),
        ("label,x", b"label,x"),
    ):
        (source,) = sources.locate([written(tmp_path / "a.txt", text)])
        assert first == sources.first_line(source)
