"""What is read if nothing else is said."""

from __future__ import annotations

from localrank_training.data.columns import AS_NAMED, Columns


def test_columns_have_their_usual_names_and_labels_are_wanted() -> None:
    usual = Columns(
        label="label",
        qid="qid",
        id=None,
        weight=None,
        position=None,
        ignore=(),
        sparse=False,
        judged=True,
    )

    assert usual == Columns() == AS_NAMED
