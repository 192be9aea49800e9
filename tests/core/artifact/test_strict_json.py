"""JSON that two readers could read differently is refused; what is refused is named."""

from __future__ import annotations

import time
from typing import Any

import pytest

from localrank.artifact.manifest import briefly, parse_object
from localrank.errors import ArtifactCorrupt


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": [1, 2.5, null, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}),
        (b" {} ", {}),
        (b'{"a": {"a": 1}, "b": {"a": 2}}', {"a": {"a": 1}, "b": {"a": 2}}),
        (b'{"a": ' + b"[" * 63 + b"]" * 63 + b"}", None),
        (b'{"a": "' + b"[" * 100 + b'\\" {"}', {"a": "[" * 100 + '" {'}),
        (b'{"a": [[[]]], "b": [[]]}', {"a": [[[]]], "b": [[]]}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a": 1e308}', {"a": 1e308}),
    ],
)
def test_an_object_is_read(content: bytes, expected: dict[str, Any] | None) -> None:
    found = parse_object(content, "name.json", len(content))

    assert expected is None or expected == found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a JSON object, found an empty file"),
        (b" \n", "expected a JSON object, found an empty file"),
        (b"[1]", r"expected a JSON object, found \[1\]"),
        (b'{"b": 2, "a": 1, "c": 0, "a": 3}', "expected every member once, found 'a' twice"),
        (b'[{"c": {"b": 1, "a": 2, "b": 3}}]', "expected every member once, found 'b' twice"),
        (b'{"a": "\xff"}', "expected UTF-8, found the byte 0xff at 7"),
        (b'{"a": NaN}', "expected finite numbers, found NaN"),
        (b'{"a": -Infinity}', "expected finite numbers, found -Infinity"),
        (b'{"a": 1e309}', "expected finite numbers, found 1e309"),
        (b'{"a": "\\ud83d"}', "expected JSON: .*surrogates"),
        (b'{"a": 1', "expected JSON: "),
        (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "expected members nested at most 64 deep, found more"),
    ],
)
def test_anything_else_is_refused_by_name(content: bytes, message: str) -> None:
    with pytest.raises(ArtifactCorrupt, match=rf"^name\.json: {message}"):
        parse_object(content, "name.json", 1000)


def test_a_file_has_at_most_the_largest_size() -> None:
    assert {"a": 1} == parse_object(b'{"a": 1}', "name.json", 8)
    with pytest.raises(ArtifactCorrupt, match=r"^name\.json: expected at most 7 bytes, found more$"):
        parse_object(b'{"a": 1}', "name.json", 7)


@pytest.mark.parametrize(
    ("value", "shown"), [("x" * 58, "'" + "x" * 58 + "'"), ("x" * 59, "'" + "x" * 56 + "..."), (3, "3")]
)
def test_a_value_in_a_message_has_at_most_60_characters(value: object, shown: str) -> None:
    assert shown == briefly(value)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + '\\"' * 200_000,
        "{" + ", ".join(f'"{at}": 1' for at in range(30_000)) + ', "29999": 1}',
        "[" * 400_000,
        '{"a": ' + "1" * 400_000 + "}",
    ],
    ids=["a text without an end", "a member twice among many", "brackets", "digits"],
)
def test_time_grows_with_the_bytes(text: str) -> None:
    """A manifest may have 64 MiB; what is quadratic would take hours."""
    begun = time.process_time()

    with pytest.raises(ArtifactCorrupt):
        parse_object(text.encode(), "x", 2**20)

    assert time.process_time() - begun < 2
