"""The fences that other tests rely on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.core.native.fences import fenced

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("count", [0, 1, 3, 1024, 1025])
@pytest.mark.parametrize("in_front", [False, True])
def test_a_fenced_array_holds_what_it_is_given(count: int, *, in_front: bool) -> None:
    numbers = np.arange(count, dtype=np.float32)

    copy = fenced(numbers, in_front=in_front)

    np.testing.assert_array_equal(numbers, copy)
    assert copy.flags.writeable


@pytest.mark.parametrize(("in_front", "first"), [(False, 0), (True, -1)])
def test_a_byte_too_far_ends_the_process(first: int, *, in_front: bool) -> None:
    probe = (
        "import ctypes, sys; from tests.core.native.fences import room\n"
        f"array = room(7, 'u1', in_front={in_front})\n"
        "ctypes.string_at(array.ctypes.data, 7)\n"
        "print('inside', flush=True)\n"
        f"ctypes.string_at(array.ctypes.data + {first}, 8)\n"
        "print('beyond', flush=True)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe], check=False, capture_output=True, text=True, cwd=ROOT
    )

    assert done.returncode != 0
    assert "inside\n" == done.stdout
