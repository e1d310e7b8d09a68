"""What the measurements were made on."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = (
    *("hedgerow", "libpecos", "omikuji", "napkinxc", "annif", "nltk", "rdflib", "qualle", "xcolumns"),
    *("numpy", "scipy", "scikit-learn"),
)
LIST_VERSIONS = (
    "import importlib.metadata as m, json, platform; "
    "d = {x.metadata['Name'].lower(): x.version for x in m.distributions()}; "
    f"print(json.dumps({{'python': platform.python_version()}} | {{n: d[n] for n in {PACKAGES} if n in d}}))"
)


def describe(pythons: dict[str, Path]) -> dict[str, Any]:
    """Describe the processor, memory, system and compiler, and the packages of every environment."""
    return {
        "cpu": _first_field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release()}",
        "compiler": _output(["c++", "--version"]).partition("\n")[0],
        "simd": _output(
            [str(pythons["hedgerow"]), "-c", "import hedgerow._native as n; print(n.simd_level())"]
        ),
        "environments": {
            name: json.loads(_output([str(python), "-c", LIST_VERSIONS]) or "{}")
            for name, python in pythons.items()
        },
        "date": datetime.date.today().isoformat(),
    }


def _first_field(path: str, field: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "unknown")


def _output(command: list[str]) -> str:
    """Return what a command prints, or nothing where it cannot run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
