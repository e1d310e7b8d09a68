"""Which systems run under which settings, and the stored result of each run."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
RAW = RESULTS / "raw"
PYTHONS = {"hedgerow": ROOT / ".venv/bin/python", "peers": ROOT / ".venv-peers/bin/python"}

SETTINGS = {
    "hedgerow": ("paper-tfn", "paper-tfn+man", "default-tfn", "default-tfn+man"),
    "pecos": ("tfn", "tfn+man"),
    "omikuji": ("paper", "default"),
    "napkinxc": ("paper", "default"),
}


@dataclass(frozen=True)
class Run:
    """One system under one setting on one data set."""

    dataset: str
    system: str
    setting: str

    @property
    def stored(self) -> Path:
        return RAW / f"{self.dataset}.{self.system}.{self.setting}.json"

    def result(self) -> dict[str, Any] | None:
        """Return the stored measurement, or None where there is none yet."""
        return json.loads(self.stored.read_text()) if self.stored.exists() else None

    def measure(self, folder: Path, timeout: float, memory: float) -> dict[str, Any]:
        """Run the program of the system in its own environment, and store what it prints."""
        python = PYTHONS["hedgerow" if self.system == "hedgerow" else "peers"]
        command = [str(python), "-m", f"bench.run_{self.system}", str(folder), self.setting]
        command += ["--timeout", str(timeout), "--memory", str(memory)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if ended.returncode:
            # The program itself outlives a step that dies, so this is a broken set-up and no measurement.
            raise RuntimeError(f"{' '.join(command)} did not run:\n{ended.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(ended.stdout)
        store(self.stored, result)
        return result


def store(path: Path, result: object) -> None:
    """Keep a measurement; a fresh clone has no folder for raw ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def runs(datasets: list[str], systems: list[str]) -> list[Run]:
    """All runs, one data set after the other."""
    return [
        Run(dataset, system, setting)
        for dataset in datasets
        for system in systems
        for setting in SETTINGS[system]
    ]
