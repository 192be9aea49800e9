"""Files with random damage are read or refused with one sentence; nothing else happens."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localrank.errors import InvalidData
from localrank_training.data import writing
from localrank_training.data.inspection import inspect
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from pathlib import Path

CHARACTERS = np.frombuffer(b"0123456789:.-+eE#?qid \n\t\rnaf", np.uint8)


@pytest.mark.parametrize("seconds", [1.5, pytest.param(60.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("to", writing.FORMATS)
def test_damage_is_read_or_refused(tmp_path: Path, to: writing.Format, seconds: float) -> None:
    rng = np.random.default_rng(0)
    source = tmp_path / "source.txt"
    source.write_text(
        "".join(
            f"{i % 3} qid:{i // 5} 1:{rng.standard_normal():.4f} 2:{rng.random():.3f} # doc é{i}\n"
            for i in range(60)
        )
    )
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    writing.convert([source], whole, to=to)
    end = time.monotonic() + seconds
    messages = []

    while time.monotonic() < end:
        if to == "mapped":
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(whole, damaged)
            victim = rng.choice(np.array(sorted(damaged.iterdir())))
        else:
            shutil.copy(whole, damaged)
            victim = damaged
        victim.write_bytes(hurt(victim.read_bytes(), rng))
        try:
            inspect(read(damaged))
        except InvalidData as error:
            messages.append(str(error))

    assert messages
    assert not [message for message in messages if "\n" in message or not message.startswith(str(damaged))]


def test_a_damaged_table_of_text_is_read_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "a.csv"
    whole = b'label,qid,docid,x,"y,z",url\n' + b'1,a,u,1,2,w\n0,a,"v",3,4.5,w\n' * 3
    messages = []

    for _ in range(80):
        damaged = hurt(whole, rng)
        path.write_bytes(damaged.replace(b"e", b'"').replace(b"q", b"\xff"))
        try:
            read(path)
        except InvalidData as error:
            messages.append(str(error))

    assert messages
    assert not [message for message in messages if "\n" in message or not message.startswith(str(path))]


def hurt(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut or put in a few bytes."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(changed))), int(rng.integers(4))
        if kind == 0:
            changed[at] = int(rng.integers(256))
        elif kind == 1:
            changed[at] = int(rng.choice(CHARACTERS))
        elif kind == 2 and at > 0:
            del changed[at : at + int(rng.integers(1, 30))]
        else:
            changed[at:at] = rng.bytes(int(rng.integers(1, 5)))
    return bytes(changed)


def test_a_comment_cut_within_a_letter_is_refused(tmp_path: Path) -> None:
    table = pa.table({"label": [1.0], "qid": ["q"], "f1": [0.5], "comment": ["caf\u00e9"]})
    broken = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, 4], np.int32)), pa.py_buffer(b"caf\xc3")
    )
    pq.write_table(table.set_column(3, "comment", broken), tmp_path / "broken.parquet")

    with pytest.raises(InvalidData, match=r"broken.parquet: expected a whole Parquet file, found damage"):
        read(tmp_path / "broken.parquet")


@pytest.mark.parametrize(
    ("written", "damaged"),
    [(b"(2, 1)", b"(-9,1)"), (b"'shape'", b"b'hape'"), (b"'descr'", b"'desc\x00'"), (b"False", b"[[[[[")],
)
def test_a_mapped_array_whose_header_is_damaged_is_refused(
    tmp_path: Path, written: bytes, damaged: bytes
) -> None:
    (tmp_path / "source.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    writing.convert([tmp_path / "source.txt"], tmp_path / "mapped", to="mapped")
    path = tmp_path / "mapped" / "documents.npy"
    whole = path.read_bytes()
    assert written in whole
    path.write_bytes(whole.replace(written, damaged))

    with pytest.raises(InvalidData, match=r"documents\.npy: expected"):
        read(tmp_path / "mapped")
