"""Quantiles, means and deviations of columns that are read in portions: those of numpy on the whole, to the bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from localrank.features import columns
from localrank.features.columns import column_quantiles, forget, mean_and_deviation, portions
from localrank.features.contract import QUANTILES, FeatureContract

N_DOCS = 3_001


@pytest.fixture(autouse=True)
def _portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "CELLS", 1_000)
    monkeypatch.setattr(columns, "_COLUMNS", 3)


def documents(missing: float = 0.0) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rng = np.random.default_rng(0)
    made = rng.standard_normal((N_DOCS, 7)).astype(np.float32)
    made[:, 1] = np.round(made[:, 1])  # many equal values, zeros of both signs
    made[:, 2] = 3
    made[:, 3] = np.exp(made[:, 3] * 20)
    made[:, 4] = -np.abs(made[:, 4]) * np.float32(1e-42)  # too small to be normal
    made[:, 5] *= np.float32(3e38) / np.abs(made[:, 5]).max()
    made[rng.random(made.shape) < missing] = np.nan
    return made


def test_quantiles_are_those_of_numpy() -> None:
    found, known = column_quantiles(documents(), QUANTILES)

    np.testing.assert_array_equal(np.quantile(documents().astype(np.float64), QUANTILES, axis=0), found)
    assert [N_DOCS] * 7 == known.tolist()


def test_missing_values_have_no_rank() -> None:
    made = documents(0.3)
    made[:, 6] = np.nan

    found, known = column_quantiles(made, QUANTILES)

    np.testing.assert_array_equal(
        np.nanquantile(made[:, :6].astype(np.float64), QUANTILES, axis=0), found[:, :6]
    )
    assert [0.0] * len(QUANTILES) == found[:, 6].tolist()
    assert (~np.isnan(made)).sum(axis=0).tolist() == known.tolist()


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((N_DOCS, 1), id="one column"),
        pytest.param((1_001, 2), id="a last portion of one row"),
        pytest.param((2, 1_001), id="portions of one row"),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_documents_stay_as_they_are(shape: tuple[int, int], order: Literal["C", "F"]) -> None:
    made = np.array(np.random.default_rng(1).standard_normal(shape), np.float32, order=order)
    made[0, 0] = -0.0
    before = made.tobytes()
    made.flags.writeable = False

    found, known = column_quantiles(made, QUANTILES)

    assert before == made.tobytes()
    np.testing.assert_array_equal(np.quantile(made.astype(np.float64), QUANTILES, axis=0), found)
    assert [shape[0]] * shape[1] == known.tolist()


def test_mean_and_deviation_are_those_of_numpy() -> None:
    wide = documents().astype(np.float64)

    mean, deviation = mean_and_deviation(documents())

    np.testing.assert_array_equal(wide.mean(axis=0), mean)
    np.testing.assert_array_equal(wide.std(axis=0), deviation)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_contract_is_the_same_however_the_documents_are_read(
    missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, lengths = documents(missing), [N_DOCS]
    in_portions = FeatureContract.learn(made, lengths, missing="median")
    monkeypatch.setattr(columns, "CELLS", 1 << 22)

    whole = FeatureContract.learn(made, lengths, missing="median")

    assert whole.digest == in_portions.digest


def _resident() -> int:
    """Kilobytes of mapped files that this process holds."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile")
    )
    return int(line.split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_was_looked_at_of_a_mapped_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    shape = (250_000, 16)
    written = np.lib.format.open_memmap(tmp_path / "documents.npy", "w+", np.float32, shape)
    before = _resident()
    written[:] = np.arange(shape[0])[:, None]
    filled = _resident() - before

    forget(written, 0, len(written))
    left = _resident() - before
    mapped = np.load(tmp_path / "documents.npy", mmap_mode="r")
    totals = [float(mapped[rows].sum()) for rows in portions(mapped, 1 << 16)]
    read = _resident() - before

    assert filled > 15_000
    assert max(left, read) < 4000
    assert 16.0 * sum(range(shape[0])) == sum(totals)
    np.testing.assert_array_equal(written[:, 3], np.arange(shape[0]))
