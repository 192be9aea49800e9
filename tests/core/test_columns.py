"""Quantiles, means and deviations of columns that are read in portions: those of numpy on the whole, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from localrank import columns
from localrank.columns import column_quantiles, mean_and_deviation
from localrank.contract import QUANTILES, FeatureContract

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
