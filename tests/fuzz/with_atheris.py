"""Let atheris make inputs for a harness in Python: `with_atheris.py TARGET`, then options of libFuzzer."""

from __future__ import annotations

import gc
import importlib
import sys
import tempfile
from pathlib import Path
from types import FunctionType


def main() -> None:
    """Fuzz a target until libFuzzer ends the process."""
    import atheris

    target, *arguments = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parent))
    harness = importlib.import_module(f"fuzz_{target}")
    if hasattr(harness, "prepare"):
        harness.prepare()
    # Not atheris.instrument_imports: an editable install has a loader of its own, which it passes by.
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and (found.__module__ or "").split(".")[0] == "hedgerow":
            atheris.instrument_func(found)
    options = {}
    if hasattr(harness, "mutated"):
        options["custom_mutator"] = lambda data, largest, seed: harness.mutated(
            data, largest, seed, atheris.Mutate
        )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        # For a merge libFuzzer calls itself, by its name and with other options.
        myself = f"{sys.executable} {Path(__file__).resolve()} {target}"
        atheris.Setup([myself, *arguments], lambda data: harness.run(data, Path(folder)), **options)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
