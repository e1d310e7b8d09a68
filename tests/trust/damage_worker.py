"""Damages a model file in many ways and loads it each time, in a process of its own, which may crash.

Arguments: the file; "flips" or "cuts"; the first case, the last and the step. A case is a bit of the file, or
the length that is left of it. The case in hand is always in the file's name with ``.case`` after it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import hedgerow
from hedgerow.storage.container import ModelFileError


def try_all(path: str, kind: str, cases: range) -> dict[str, object]:
    """How many cases were rejected, by error, and which were not."""
    rejected: Counter[str] = Counter()
    failed: list[str] = []
    whole = open(path, "rb").read()  # noqa: SIM115
    model = os.open(path, os.O_RDWR)
    diary = os.open(f"{path}.case", os.O_RDWR | os.O_CREAT)
    for case in cases:
        os.pwrite(diary, b"%20d" % case, 0)
        for verify in (True,) if kind == "flips" else (True, False):
            if kind == "flips":
                os.pwrite(model, bytes([whole[case // 8] ^ 1 << case % 8]), case // 8)
            else:
                os.ftruncate(model, case)
            try:
                hedgerow.load(path, verify=verify)
                failed.append(f"{case}: loaded")
            except ModelFileError as error:
                rejected[type(error).__name__] += 1
            except BaseException as error:
                failed.append(f"{case}: {type(error).__name__}: {error}")
        if kind == "flips":
            os.pwrite(model, whole[case // 8 : case // 8 + 1], case // 8)
        else:
            os.pwrite(model, whole[case:], case)
    hedgerow.load(path)
    return {"rejected": rejected, "failed": failed}


if __name__ == "__main__":
    print(json.dumps(try_all(sys.argv[1], sys.argv[2], range(*map(int, sys.argv[3:])))))
