"""Metrics: definitions written out, the official scripts line by line, independent implementations."""

from __future__ import annotations

import itertools
import math
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank import metrics
from localrank.errors import InvalidConfiguration, InvalidData, ScoringFailed
from localrank.metrics import (
    CONVENTIONS,
    Convention,
    Judgements,
    Measured,
    Metric,
    Ties,
    measure,
    ndcg,
)

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector

OFFICIAL = ("letor3", "letor4", "mslr")
EVERY = [
    "map",
    "mean_ndcg",
    "mrr",
    "mrr@3",
    "err",
    "err@4",
    "ndcg",
    *(f"ndcg@{k}" for k in range(1, 13)),
    *(f"p@{k}" for k in range(1, 13)),
]


def one(labels: list[float], metric: str, convention: str = "standard") -> float:
    """Measure one query whose documents are already in their order."""
    scores = -np.arange(len(labels), dtype=np.float64)
    return float(measure(labels, scores, [0, len(labels)], [metric], convention)[0].per_query[0])


class Judged(NamedTuple):
    labels: Vector
    scores: Vector
    offsets: Indices


def made_up(
    seed: int, n_queries: int, *, grades: int = 3, longest: int = 40, ties: bool = False, p_empty: float = 0.2
) -> Judged:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n_queries)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(0, grades, offsets[-1]).astype(np.float64)
    for query in np.flatnonzero(rng.random(n_queries) < p_empty):
        labels[offsets[query] : offsets[query + 1]] = 0
    scores = rng.integers(0, 6, offsets[-1]) / 8 if ties else rng.permutation(int(offsets[-1])) / 8
    return Judged(labels, scores.astype(np.float64), offsets)


# ---------------------------------------------------------------------------------------------- definitions


def test_standard_ndcg_has_exponential_gains_and_logarithmic_discounts() -> None:
    """Burges (2005): gain 2^l - 1; Järvelin & Kekäläinen (2002): discount 1 / log2(1 + p)."""
    expected = (1 / math.log2(3) + 7 / math.log2(5)) / (7 / math.log2(2) + 1 / math.log2(3))

    assert expected == pytest.approx(one([0, 1, 0, 3], "ndcg"), rel=1e-15)
    assert one([0, 1, 0, 3], "ndcg@3") == pytest.approx(
        (1 / math.log2(3)) / (7 / math.log2(2) + 1 / math.log2(3)), rel=1e-15
    )


def test_average_precision_is_the_mean_precision_at_the_relevant_documents() -> None:
    assert one([1, 0, 2, 0, 1], "map") == pytest.approx((1 / 1 + 2 / 3 + 3 / 5) / 3, rel=1e-15)
    assert one([1, 0, 2, 0, 1], "map@3") == pytest.approx((1 / 1 + 2 / 3) / 3, rel=1e-15)


def test_reciprocal_rank_and_precision() -> None:
    assert one([0, 0, 1, 1], "mrr") == 1 / 3
    assert one([0, 0, 1, 1], "mrr@2") == 0
    assert one([0, 0, 1, 1], "p@3") == 1 / 3
    assert one([0, 0, 1, 1], "p@4") == 2 / 4
    assert one([0, 0, 1, 1], "p@8") == 2 / 8


def test_err_is_the_expected_reciprocal_rank_of_a_cascading_user() -> None:
    """Chapelle et al. (2009), eq. 4: stop at p with probability (2^l - 1) / 2^l_max."""
    stop = [(2**label - 1) / 2**4 for label in (3, 0, 4, 1)]
    expected = (
        stop[0]
        + (1 - stop[0]) * stop[1] / 2
        + (1 - stop[0]) * (1 - stop[1]) * stop[2] / 3
        + (1 - stop[0]) * (1 - stop[1]) * (1 - stop[2]) * stop[3] / 4
    )

    assert one([3, 0, 4, 1], "err") == pytest.approx(expected, rel=1e-15)
    assert one([3, 0, 4, 1], "err@1") == pytest.approx(7 / 16, rel=1e-15)
    assert one([2, 1], "err", "letor3") == pytest.approx(3 / 4 + (1 - 3 / 4) * (1 / 4) / 2, rel=1e-15)


def test_err_is_what_simulated_users_get_who_read_down_the_list() -> None:
    rng = np.random.default_rng(7)
    labels = np.array([1, 3, 0, 2, 4])
    stops = rng.random((100_000, 5)) < (2.0**labels - 1) / 16
    reciprocal = np.where(stops.any(axis=1), 1 / (stops.argmax(axis=1) + 1), 0.0)
    noise = reciprocal.std() / 100_000**0.5

    assert reciprocal.mean() == pytest.approx(one(labels.tolist(), "err"), abs=4 * noise)


def test_a_real_valued_label_has_the_gain_two_to_its_power_less_one() -> None:
    expected = ((2**0.07 - 1) + (2**3.5 - 1) / math.log2(3)) / ((2**3.5 - 1) + (2**0.07 - 1) / math.log2(3))

    assert one([0.07, 3.5], "ndcg") == pytest.approx(expected, rel=1e-14)
    assert one([0.0, 0.07], "mrr") == 1 / 2


# -------------------------------------------------------------------------------------- the official scripts


GAINS = {"letor3": {0: 0, 1: 1, 2: 3}, "letor4": {0: 0, 1: 1, 2: 3}, "mslr": {0: 0, 1: 1, 2: 3, 3: 7, 4: 15}}
RELEVANT = {"letor3": {1, 2}, "letor4": {1, 2}, "mslr": {2, 3, 4}}


def script(convention: str, rates: list[int], top: int) -> dict[str, float]:
    """Do what the perl script does with one query's labels in ranked order, one loop for one loop.

    An array element that the script never sets adds nothing to the averages it prints, which is zero.
    """
    gain, relevant = GAINS[convention], RELEVANT[convention]

    def dcg(ordered: list[int]) -> list[float]:
        sums = [float(gain[ordered[0]])]
        for position in range(1, len(ordered)):
            value = gain[ordered[position]]
            discounted = value if position < 2 else value * math.log(2.0) / math.log(position + 1.0)
            sums.append(sums[-1] + discounted)
        return sums

    found, best = dcg(rates), dcg(sorted(rates, key=lambda rate: -gain[rate]))
    ndcgs = [f / b if b != 0 else 0.0 for f, b in zip(found, best, strict=True)]
    precisions = []
    for position in range(top):
        if convention == "letor3" and position >= len(rates):
            break
        seen = rates[: position + 1]
        precisions.append(sum(rate in relevant for rate in seen) / (position + 1))
    hits, total = 0, 0.0
    for position, rate in enumerate(rates):
        if rate in relevant:
            hits += 1
            total += hits / (position + 1)
    answers = {"map": total / hits if hits else 0.0, "mean_ndcg": sum(ndcgs) / len(ndcgs)}
    for k in range(1, top + 1):
        answers[f"ndcg@{k}"] = ndcgs[k - 1] if k <= len(ndcgs) else 0.0
        answers[f"p@{k}"] = precisions[k - 1] if k <= len(precisions) else 0.0
    return answers


@pytest.mark.parametrize("ties", [False, True], ids=["distinct scores", "tied scores"])
@pytest.mark.parametrize("convention", OFFICIAL)
def test_every_figure_is_the_official_scripts(convention: str, ties: bool) -> None:  # noqa: FBT001
    judged = made_up(3, 150, grades=CONVENTIONS[convention].top_grade + 1, longest=25, ties=ties)
    expected = []
    for start, stop in itertools.pairwise(judged.offsets.tolist()):
        # perl's sort is stable, as Python's: equal predictions stay in the order of the file.
        order = sorted(range(start, stop), key=lambda document: -judged.scores[document])
        expected.append(script(convention, [int(judged.labels[document]) for document in order], top=12))
    names = list(expected[0])

    found = measure(*judged, names, convention)

    for name, measured in zip(names, found, strict=True):
        np.testing.assert_allclose(
            measured.per_query, [answers[name] for answers in expected], rtol=1e-13, err_msg=name
        )
        assert measured.mean == pytest.approx(sum(a[name] for a in expected) / len(expected), rel=1e-13)


@pytest.mark.parametrize(
    ("convention", "label"), [("letor3", 3), ("letor4", 0.5), ("mslr", 5), ("letor3", -1)]
)
def test_official_conventions_refuse_labels_they_do_not_define(convention: str, label: float) -> None:
    with pytest.raises(InvalidData, match=f"document 1: convention {convention} defines the grades 0 to"):
        measure([0, label], [1, 2], [0, 2], ["map"], convention)


# ------------------------------------------------------------------------------------------- empty queries


def test_empty_queries_count_zero_or_one_or_are_left_out() -> None:
    labels, scores, offsets = [0, 1, 0, 0], [2, 1, 2, 1], [0, 2, 4, 4]
    good = 1 / math.log2(3)
    expected = {"standard": good / 3, "standard-one": (good + 2) / 3, "standard-skip": good}

    for convention, mean in expected.items():
        (measured,) = measure(labels, scores, offsets, ["ndcg@5"], convention)

        assert measured.mean == pytest.approx(mean, rel=1e-15)
        assert (measured.n_queries, measured.n_empty) == (3, 2)


def test_conventions_convert_into_each_other_by_the_share_of_empty_queries() -> None:
    """X1 = X0 + b and Xs = X0 / (1 - b), b being the share of empty queries."""
    judged = made_up(5, 300)
    zero, one_, skip = (
        measure(*judged, EVERY, name) for name in ("standard", "standard-one", "standard-skip")
    )

    for a, b, c in zip(zero, one_, skip, strict=True):
        share = a.n_empty / a.n_queries
        assert 0.1 < share < 0.3
        assert b.mean == pytest.approx(a.mean + share, rel=1e-12)
        assert c.mean == pytest.approx(a.mean / (1 - share), rel=1e-12)


def test_emptiness_is_of_the_metric() -> None:
    """Grade 1 of MSLR has a gain but is not relevant."""
    found = measure([1, 0], [2, 1], [0, 2], ["ndcg@1", "mean_ndcg", "err", "map", "mrr", "p@1"], "mslr")

    assert [0, 0, 0, 1, 1, 1] == [measured.n_empty for measured in found]


def test_no_queries_at_all_have_no_mean() -> None:
    (measured,) = measure([], [], [0], ["ndcg@10"])

    assert math.isnan(measured.mean)
    assert measured.n_queries == 0


def test_pooled_figures_are_those_of_all_queries_together() -> None:
    judged = made_up(6, 50)
    cut = int(judged.offsets[20])
    parts = (
        measure(judged.labels[:cut], judged.scores[:cut], judged.offsets[:21], EVERY, "standard-skip"),
        measure(judged.labels[cut:], judged.scores[cut:], judged.offsets[20:] - cut, EVERY, "standard-skip"),
    )

    for together, *pair in zip(measure(*judged, EVERY, "standard-skip"), *parts, strict=True):
        pooled = Measured.pooled(pair)
        np.testing.assert_array_equal(pooled.per_query, together.per_query)
        assert (pooled.mean, str(pooled)) == (together.mean, str(together))


def test_different_figures_are_not_pooled() -> None:
    ours, theirs = measure([0, 1], [1, 2], [0, 2], ["map", "mrr"])

    with pytest.raises(InvalidData, match=r"expected one metric and convention, found map 1.0000 .* and mrr"):
        Measured.pooled([ours, theirs])
    with pytest.raises(InvalidData, match="expected at least one, found none"):
        Measured.pooled([])


# -------------------------------------------------------------------------------------------------- ties


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_pessimistic_and_optimistic_are_the_worst_and_best_order_of_equal_scores(convention: str) -> None:
    rng = np.random.default_rng(11)
    metrics = ["map", "mean_ndcg", "mrr", "err", "err@2", "ndcg@1", "ndcg@3", "p@2"]
    top = CONVENTIONS[convention].top_grade
    orders = np.array(list(itertools.permutations(range(5))))
    for _ in range(8):
        labels, scores = rng.integers(0, top + 1, 5), rng.integers(0, 2, 5)
        judgements = Judgements(labels[orders].ravel(), np.arange(0, 5 * len(orders) + 1, 5), convention)
        every = [m.per_query for m in judgements.measure(scores[orders].ravel(), metrics)]

        extremes: tuple[tuple[Ties, Any], ...] = (("pessimistic", np.min), ("optimistic", np.max))
        for ties, extreme in extremes:
            found = measure(labels, scores, [0, 5], metrics, convention, ties=ties)
            np.testing.assert_allclose(
                [m.per_query[0] for m in found], extreme(every, axis=1), rtol=1e-13, equal_nan=True
            )


# --------------------------------------------------------------------------------------------- properties


@st.composite
def queries(draw: st.DrawFn) -> Judged:
    lengths = draw(st.lists(st.integers(0, 30), min_size=1, max_size=12))
    n = sum(lengths)
    labels = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(-5, 5), min_size=n, max_size=n))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Judged(np.array(labels, np.float64), np.array(scores, np.float64), offsets)


@settings(max_examples=40)
@given(queries(), st.sampled_from(list(CONVENTIONS)))
def test_a_querys_figure_is_the_same_to_the_bit_whatever_it_is_measured_with(
    judged: Judged, convention: str
) -> None:
    together = measure(*judged, EVERY, convention)

    for query, (start, stop) in enumerate(itertools.pairwise(judged.offsets)):
        alone = measure(
            judged.labels[start:stop], judged.scores[start:stop], [0, stop - start], EVERY, convention
        )
        for all_, own in zip(together, alone, strict=True):
            np.testing.assert_array_equal(all_.per_query[query], own.per_query[0])


@settings(max_examples=40)
@given(queries(), st.sampled_from(list(CONVENTIONS)))
def test_figures_lie_between_zero_and_one_and_ties_between_their_bounds(
    judged: Judged, convention: str
) -> None:
    judgements = Judgements(judged.labels, judged.offsets, convention)
    low, found, high = (
        judgements.measure(judged.scores, EVERY, ties=ties) for ties in ("pessimistic", "input", "optimistic")
    )

    for a, b, c in zip(low, found, high, strict=True):
        present = ~np.isnan(b.per_query)
        assert (b.per_query[present] >= 0).all()
        assert (b.per_query[present] <= 1 + 1e-12).all()
        assert (a.per_query[present] <= b.per_query[present] + 1e-12).all()
        assert (b.per_query[present] <= c.per_query[present] + 1e-12).all()


@settings(max_examples=40)
@given(queries())
def test_only_the_order_of_the_scores_matters(judged: Judged) -> None:
    monotone = judged.scores**3 / 7
    found = measure(judged.labels, monotone, judged.offsets, EVERY)

    for a, b in zip(measure(*judged, EVERY), found, strict=True):
        np.testing.assert_array_equal(a.per_query, b.per_query)


def test_asking_for_one_metric_gives_what_asking_for_all_gives() -> None:
    judged = made_up(9, 80)
    together = measure(*judged, EVERY)

    for metric, measured in zip(EVERY, together, strict=True):
        np.testing.assert_array_equal(measured.per_query, measure(*judged, [metric])[0].per_query)
    for ten in (
        ndcg(*judged, k=10),
        ndcg(*judged),
        Judgements(judged.labels, judged.offsets).per_query(judged.scores, "ndcg@10"),
    ):
        np.testing.assert_array_equal(ten, together[EVERY.index("ndcg@10")].per_query)
    np.testing.assert_array_equal(ndcg(*judged, k=None), together[EVERY.index("ndcg")].per_query)


def test_lists_of_very_different_lengths_are_measured_like_any_other() -> None:
    rng = np.random.default_rng(4)
    offsets = np.concatenate([[0], np.cumsum([1, 140_000, 2, 0, 3, 999, 1])])
    labels = rng.integers(0, 3, offsets[-1]).astype(np.float64)
    scores = rng.normal(size=offsets[-1])
    own = slice(1, 140_001)

    found = measure(labels, scores, offsets, ["ndcg@10", "map"])

    alone = measure(labels[own], scores[own], [0, 140_000], ["ndcg@10", "map"])
    assert [m.per_query[0] for m in alone] == [m.per_query[1] for m in found]
    ranked = labels[own][np.argsort(-scores[own])] > 0
    by_hand = np.mean((np.cumsum(ranked) / np.arange(1, 140_001))[ranked])
    assert found[1].per_query[1] == pytest.approx(by_hand, rel=1e-12)


# ------------------------------------------------------------------------------ independent implementations


def as_trec(judged: Judged, *, gains: bool) -> tuple[list[Any], list[Any]]:
    """Return qrels and run; with ``gains`` the judgements are 2^l - 1, which linear gains then make exponential."""
    import ir_measures

    qrels, run = [], []
    for query, (start, stop) in enumerate(itertools.pairwise(judged.offsets.tolist())):
        for document in range(start, stop):
            label = int(judged.labels[document])
            qrels.append(ir_measures.Qrel(str(query), f"d{document}", 2**label - 1 if gains else label))
            run.append(ir_measures.ScoredDoc(str(query), f"d{document}", float(judged.scores[document])))
    return qrels, run


def test_map_mrr_precision_and_ndcg_are_those_of_trec_eval() -> None:
    """Through ir-measures; trec_eval's gains are linear, so it is given the gains as judgements."""
    import ir_measures

    judged = made_up(21, 120, grades=5)
    qrels, run = as_trec(judged, gains=True)
    theirs = {
        "map": ir_measures.AP,
        "map@3": ir_measures.AP @ 3,
        "map@100": ir_measures.AP @ 100,
        "mrr": ir_measures.RR,
        "p@5": ir_measures.P @ 5,
        "p@10": ir_measures.P @ 10,
        "ndcg": ir_measures.nDCG,
        "ndcg@1": ir_measures.nDCG @ 1,
        "ndcg@5": ir_measures.nDCG @ 5,
        "ndcg@10": ir_measures.nDCG @ 10,
    }
    found = measure(*judged, list(theirs), "standard")
    values = {
        (str(value.measure), int(value.query_id)): value.value
        for value in ir_measures.iter_calc(list(theirs.values()), qrels, run)
    }

    for measured, metric in zip(found, theirs.values(), strict=True):
        expected = [values[str(metric), query] for query in range(120)]
        np.testing.assert_allclose(measured.per_query, expected, rtol=1e-10, err_msg=str(metric))


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval.pl needs perl")
def test_ndcg_and_err_are_those_of_gdeval_which_leaves_empty_queries_out() -> None:
    import ir_measures

    judged = made_up(22, 80, grades=5)
    qrels, run = as_trec(judged, gains=False)
    theirs = {
        "ndcg@5": ir_measures.nDCG(dcg="exp-log2") @ 5,
        "ndcg@10": ir_measures.nDCG(dcg="exp-log2") @ 10,
        "err@5": ir_measures.ERR @ 5,
        "err@20": ir_measures.ERR @ 20,
    }
    found = measure(*judged, list(theirs), "standard-skip")
    values = {
        (str(value.measure), value.query_id): value.value
        for value in ir_measures.iter_calc(list(theirs.values()), qrels, run)
    }

    for measured, metric in zip(found, theirs.values(), strict=True):
        assert 0 < measured.n_empty < 40
        for query, value in enumerate(measured.per_query):
            expected = values.get((str(metric), str(query)), 0.0)
            if math.isnan(value):
                assert expected == 0
            else:
                assert value == pytest.approx(expected, abs=0.51e-5)  # it prints five decimals


def test_ndcg_and_map_are_those_of_lightgbm_which_counts_empty_queries_one() -> None:
    import lightgbm

    judged = made_up(23, 150, grades=5, longest=30)
    rng = np.random.default_rng(23)
    features = rng.normal(size=(len(judged.labels), 3)) + judged.labels[:, None] * [0.3, 0, -0.2]
    data = lightgbm.Dataset(features, judged.labels, group=np.diff(judged.offsets))
    learning = {
        "objective": "lambdarank",
        "metric": ["ndcg", "map"],
        "eval_at": [1, 3, 5, 10, 30],
        "num_leaves": 4,
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
    }
    booster = lightgbm.Booster(learning, data)
    for _ in range(5):
        booster.update()
    theirs = {name: value for _, name, value, _ in booster.eval_train()}
    scores = booster.predict(features, raw_score=True)
    judgements = Judgements(judged.labels, judged.offsets, "standard-one")

    for measured in judgements.measure(scores, [f"ndcg@{k}" for k in (1, 3, 5, 10, 30)]):
        assert measured.mean == pytest.approx(theirs[measured.name], rel=1e-9)
    # Its MAP@k divides by the relevant documents among the first k, which is MAP where k is the longest list.
    assert judgements.measure(scores, ["map"])[0].mean == pytest.approx(theirs["map@30"], rel=1e-9)


# -------------------------------------------------------------------------------------- names and printing


@pytest.mark.parametrize(
    "text", ["map", "map@100", "ndcg@10", "ndcg", "p@5", "mrr", "mrr@10", "err@20", "mean_ndcg"]
)
def test_a_metric_reads_back_from_its_name(text: str) -> None:
    assert text == str(Metric.parse(text))
    assert Metric.parse(f" {text.upper()} ") == Metric.parse(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("dcg@10", "expected one of map"),
        ("ndcg@", "expected one of map"),
        ("ndcg@-1", "expected one of map"),
        ("ndcg@0", "expected a cutoff from 1 to 1000000000, found 0"),
        ("ndcg@1000000001", "expected a cutoff from 1 to 1000000000, found 1000000001"),
        ("p@99999999999999999999", "expected a cutoff from 1 to 1000000000, found 99999999999999999999"),
        (f"mrr@{'1' * 5000}", f"found {'1' * 40}$"),
        ("p", "expected a cutoff, as in p@5"),
        ("mean_ndcg@3", "takes no cutoff"),
        ("", "expected one of map"),
    ],
)
def test_a_wrong_metric_is_refused_with_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(InvalidConfiguration, match=complaint):
        Metric.parse(text)


def test_an_unknown_convention_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidConfiguration, match="'trec': expected one of letor3, letor4, mslr, standard"):
        Convention.named("trec")


def test_a_figure_prints_with_its_convention_and_its_empty_queries() -> None:
    (measured,) = measure([0, 1, 0, 0], [2, 1, 2, 1], [0, 2, 4], ["ndcg@5"], "standard-skip")

    assert str(measured) == "ndcg@5 0.6309 (standard-skip; 2 queries, 1 of them empty, left out)"
    assert measured.to_json() == {
        "metric": "ndcg@5",
        "mean": pytest.approx(1 / math.log2(3)),
        "convention": "standard-skip",
        "queries": 2,
        "empty_queries": 1,
        "empty_queries_are": "left out",
        "ties": "input",
    }


def test_another_order_of_ties_shows_in_the_figure() -> None:
    (measured,) = measure([0, 1], [1, 1], [0, 2], ["mrr"], ties="optimistic")

    assert str(measured) == "mrr 1.0000 (standard; 1 queries, 0 of them empty, counted 0, ties optimistic)"


def test_err_refuses_labels_above_the_top_grade_and_takes_another_one() -> None:
    with pytest.raises(
        InvalidData, match="document 1: ERR in convention standard has the top grade 4, found 5"
    ):
        measure([0, 5], [1, 2], [0, 2], ["err"])
    wider = CONVENTIONS["standard"].with_top_grade(5)

    (measured,) = measure([0, 5], [1, 2], [0, 2], ["err"], wider)

    assert measured.mean == pytest.approx(31 / 32)
    assert "standard(top_grade=5)" in str(measured)
    assert CONVENTIONS["standard"].with_top_grade(4) is CONVENTIONS["standard"]
    with pytest.raises(InvalidConfiguration, match="letor3: its top grade is always 2"):
        CONVENTIONS["letor3"].with_top_grade(4)
    with pytest.raises(InvalidConfiguration, match="top grade: expected 1 to 1000, found 0"):
        CONVENTIONS["standard"].with_top_grade(0)


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ([0, np.nan], "document 1: expected a finite number, found nan"),
        ([0, np.inf], "document 1: expected a finite number, found inf"),
        ([0, -1], "document 1: expected 0 to 1000, found -1"),
        ([0, 1001], "document 1: expected 0 to 1000, found 1001"),
        ([[0, 1]], r"expected one per document, found shape \(1, 2\)"),
    ],
)
def test_labels_that_have_no_gain_are_refused(labels: Any, complaint: str) -> None:
    with pytest.raises(InvalidData, match=complaint):
        measure(labels, [1, 2], [0, 2], ["map"])


def test_labels_up_to_a_thousand_have_a_gain() -> None:
    """2 to the 1000 is a double; beyond 1023 it is not. Without ERR no top grade is in the way."""
    assert one([0, 1000], "ndcg") == pytest.approx(math.log(2) / math.log(3))
    assert one([0, 1000], "map") == 1 / 2


@pytest.mark.parametrize("top_grade", [1, 1000])
def test_a_top_grade_is_from_1_to_1000(top_grade: int) -> None:
    assert top_grade == CONVENTIONS["standard"].with_top_grade(top_grade).top_grade
    with pytest.raises(InvalidConfiguration, match="top grade: expected 1 to 1000, found 1001"):
        CONVENTIONS["standard"].with_top_grade(1001)


@pytest.mark.parametrize("offsets", [[0, 1], [1, 2], [0, 2, 1, 2], [], [[0, 2]]])
def test_offsets_that_do_not_cover_the_documents_are_refused(offsets: Any) -> None:
    with pytest.raises(InvalidData, match="offsets: expected to rise from 0 to the 2 documents"):
        measure([0, 1], [1, 2], offsets, ["map"])


def test_scores_must_be_finite_and_one_per_document() -> None:
    with pytest.raises(ScoringFailed, match="document 1 scored nan; expected a finite score"):
        measure([0, 1], [1, np.nan], [0, 2], ["map"])
    with pytest.raises(InvalidData, match=r"expected one per document \(2,\), found \(3,\)"):
        measure([0, 1], [1, 2, 3], [0, 2], ["map"])


def test_an_unknown_order_of_ties_is_refused() -> None:
    with pytest.raises(
        InvalidConfiguration, match="'random': expected one of input, pessimistic, optimistic"
    ):
        measure([0, 1], [1, 2], [0, 2], ["map"], ties="random")  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [1, 7, 60, 500])
def test_figures_do_not_depend_on_how_many_queries_are_worked_on_together(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    judged = made_up(5, 60, longest=12)
    together = measure(*judged, EVERY)
    monkeypatch.setattr(metrics, "_BLOCK_CELLS", cells)

    apart = measure(*judged, EVERY)

    for expected, found in zip(together, apart, strict=True):
        np.testing.assert_array_equal(expected.per_query, found.per_query)
        assert expected.n_empty == found.n_empty


def test_a_block_holds_lists_of_about_one_length_and_no_more_than_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to a quarter and four longer than the shortest; 20 cells hold two rows of nine."""
    lengths = [4, 9, 10, 5, 9, 0, 17, 16]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.ones(offsets[-1])
    convention = CONVENTIONS["standard"]

    def shapes() -> list[list[int]]:
        return [block.lengths.tolist() for block in metrics._blocks(labels, offsets, convention)]

    assert [[4, 5, 9, 9], [10, 16], [17]] == shapes()
    monkeypatch.setattr(metrics, "_BLOCK_CELLS", 20)
    assert [[4, 5], [9, 9], [10], [16], [17]] == shapes()


@pytest.mark.parametrize(
    ("texts", "depth"), [(["ndcg@3", "p@7", "mrr@5"], 7), (["ndcg@3", "map"], None), ([], 1), (["err@1"], 1)]
)
def test_lists_are_ordered_as_deep_as_the_metrics_look(texts: list[str], depth: int | None) -> None:
    assert depth == metrics._depth([Metric.parse(text) for text in texts])
