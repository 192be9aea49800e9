"""The same answers as `localrank.native.texts` gives, in numpy, for installations without compiled code.

It also takes linear time and bounded memory, but it is several times slower and holds the interpreter. Text is looked
at block by block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from localrank.native.texts import RUN_BYTES, RUN_VALUES, Cut, Size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices

    Flags = np.ndarray[Any, np.dtype[np.bool_]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_BLOCK = 2**18
_GRAMMAR = msgspec.json.Decoder(msgspec.Raw)


def _table(characters: bytes) -> Flags:
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


_OPENS, _CLOSES = _table(b"[{"), _table(b"]}")
_STRUCTURE, _NO_SPACE = _table(b'[]{},:"'), ~_table(b" \t\r\n")
_NO_STRUCTURE = bytes(set(range(256)) - set(b'[]{},:"'))
_BEFORE_ELEMENT, _BEFORE_VALUE = _table(b"[,"), _table(b"[,:")
_NUMBER_OR_NULL, _WORD = _table(b"-0123456789n"), _table(b"-0123456789ntf")


class _Block(NamedTuple):
    """The wanted bytes of a block that are outside of texts, and the opening quote of each text."""

    places: Indices
    found: Bytes
    levels: Indices  # after each


def _blocks(text: bytes, begin: int, end: int, wanted: Flags) -> Iterator[_Block]:
    within = escapes = False
    level = 0
    for start in range(begin, end, _BLOCK):
        block = np.frombuffer(text, np.uint8, min(_BLOCK, end - start), start)
        places = np.flatnonzero(wanted[block])
        slashes = np.flatnonzero(block == ord("\\")) if b"\\" in text else places[:0]
        if len(slashes) or escapes:
            escaped, escapes = _escaped(slashes, len(block), after_escape=escapes)
            places = places[(block[places] != ord('"')) | ~np.isin(places, escaped)]
        found = block[places]
        quotes = found == ord('"')
        inside = (np.cumsum(quotes) + within) % 2 == 1
        within = bool(inside[-1]) if len(inside) else within
        means = inside == quotes  # outside, or the quote that opens a text
        places, found = places[means], found[means]
        levels = level + np.cumsum(_OPENS[found].astype(np.int64) - _CLOSES[found])
        if len(levels):
            level = int(levels[-1])
        yield _Block(places + start, found, levels)


def _escaped(slashes: Indices, length: int, *, after_escape: bool) -> tuple[Indices, bool]:
    """Return the places after an odd number of backslashes, and whether the next block begins with one."""
    breaks = np.diff(slashes) != 1
    first = slashes[np.concatenate(([True], breaks))] if len(slashes) else slashes
    after = slashes[np.concatenate((breaks, [True]))] + 1 if len(slashes) else slashes
    odd = (after - first) % 2 == 1
    extra = slashes[:0]
    if after_escape and len(first) and first[0] == 0:
        odd[0] = not odd[0]
    elif after_escape:
        extra = np.zeros(1, np.int64)
    escaped = np.concatenate((extra, after[odd]))
    beyond = bool(len(escaped)) and int(escaped[-1]) == length
    return escaped, beyond


def scan(text: bytes, *, members: int, numbers: int, levels: int) -> Size:
    """Do what `localrank.native.texts.scan` does.

    If a limit is passed, ``at`` is only near the place. If a text is far from every limit, nothing is counted.
    """
    if b"\\" not in text:
        structure = text.translate(None, _NO_STRUCTURE)
        # A comma, a bracket or a colon stands before every value except the first.
        if len(structure) < min(members, numbers):
            deepest = max(
                (
                    int(block.levels.max(initial=0))
                    for block in _blocks(structure, 0, len(structure), _STRUCTURE)
                ),
                default=0,
            )
            size = Size("levels" if deepest > levels else "", len(text), deepest, 0, 0, 0)
            return size if size.problem else _checked(text, size)
    deepest = n_numbers = n_others = names = 0
    last = np.array([ord(":")], np.uint8)  # the first value is no element
    for block in _blocks(text, 0, len(text), _NO_SPACE):
        found = block.found
        if not len(found):
            continue
        before = np.concatenate((last, found[:-1]))
        last = found[-1:]
        is_element = _BEFORE_ELEMENT[before]
        colons = int((found == ord(":")).sum())
        numeric = int((is_element & _NUMBER_OR_NULL[found]).sum())
        words = int((_BEFORE_VALUE[before] & _WORD[found]).sum())
        values = int(_OPENS[found].sum()) + int((found == ord('"')).sum()) - colons + words
        deepest = max(deepest, int(block.levels.max()))
        n_numbers += numeric
        n_others += values - numeric
        names += colons
        for count, most, problem in (
            (deepest, levels, "levels"),
            (n_others, members, "members"),
            (n_numbers, numbers, "numbers"),
        ):
            if count > most:
                return Size(problem, int(block.places[-1]), deepest, n_numbers, n_others, names)
    return _checked(text, Size("", len(text), deepest, n_numbers, n_others, names))


def _checked(text: bytes, size: Size) -> Size:
    """Add whether the text is JSON in UTF-8."""
    try:
        _GRAMMAR.decode(text)
        text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        return size._replace(problem="syntax", at=error.start)
    except msgspec.DecodeError as error:
        place = str(error).partition("(byte ")[2].removesuffix(")")
        return size._replace(problem="syntax", at=int(place) if place else len(text))
    return size


def cut(text: bytes, begin: int, end: int, *, single: int | None = None) -> Cut:
    """Do what `localrank.native.texts.cut` does."""
    values, size = (RUN_VALUES, RUN_BYTES) if single is None else (0, 0)
    ends, counts, colons, first_colons = [], [], [], []
    n_values = n_colons = 0
    stop = end
    for block in _blocks(text, begin, end, _STRUCTURE):
        found, levels = block.found, block.levels
        if closed := np.flatnonzero(levels == 0).tolist():
            found, levels = found[: closed[0] + 1], levels[: closed[0] + 1]
            stop = int(block.places[closed[0]]) + 1
        places = block.places[: len(found)]
        is_end = ((found == ord(",")) & (levels == 1)) | (levels == 0)
        is_colon = found == ord(":")
        deeper = (_OPENS[found] & (levels > 1)) | ((found == ord(",")) & (levels > 1))
        at = np.flatnonzero(is_end)
        ends.append(places[at])
        counts.append(n_values + np.cumsum(deeper)[at])
        colons.append(n_colons + np.cumsum(is_colon)[at])
        first_colons.append(places[is_colon & (levels == 1)])
        n_values += int(deeper.sum())
        n_colons += int(is_colon.sum())
        if closed:
            break
    if ends and sum(map(len, ends)) == 1 and not text[begin + 1 : stop - 1].strip(b" \t\r\n"):
        return Cut(stop, 0, np.empty((0, 6), np.int64))
    found_ends, found_counts, found_colons, found_first = map(
        np.concatenate, (ends, counts, colons, first_colons)
    )
    totals = found_counts + np.arange(1, len(found_ends) + 1)
    runs: list[tuple[int, ...]] = []
    first, done, named, start = 0, 0, 0, begin + 1
    while first < len(found_ends) and (single is None or len(runs) < single):
        by_values = int(np.searchsorted(totals, done + values, "right"))
        head = text[start : int(found_ends[first])]
        opened = start + len(head) - len(head.lstrip(b" \t\r\n"))
        by_bytes = int(np.searchsorted(found_ends, opened + size, "right"))
        # Spaces before the next comma do not count.
        if 0 < by_bytes < len(found_ends):
            after = text[int(found_ends[by_bytes - 1]) + 1 : int(found_ends[by_bytes])].rstrip(b" \t\r\n")
            by_bytes += int(found_ends[by_bytes - 1]) + 1 + len(after) <= opened + size
        last = max(first + 1, min(by_values, by_bytes))
        piece = text[start : int(found_ends[last - 1])]
        colon = int(np.searchsorted(found_first, opened))
        has_colon = colon < len(found_first) and found_first[colon] < found_ends[first]
        runs.append(
            (
                opened,
                start + len(piece.rstrip(b" \t\r\n")),
                last - first,
                int(totals[last - 1]) - done,
                int(found_colons[last - 1]) - named,
                int(found_first[colon]) if has_colon else 0,
            )
        )
        first, done, named = last, int(totals[last - 1]), int(found_colons[last - 1])
        start = int(found_ends[last - 1]) + 1
    return Cut(stop, len(found_ends), np.array(runs, np.int64).reshape(-1, 6))
