"""Who takes part in `bench.frontier`, under which settings, and the stored result of each run."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.plan import PYTHONS, RAW, ROOT, store

NAMES = ("eurlex-4k", "tibkat-en", "debian-tags", "debian-depends")

TEN: dict[str, Any] = {"method": "bagging", "members": 10}

# The settings of Hedgerow: the name in tables and pictures, a preset, and other parameters of
# HedgerowClassifier. A line here is all that a setting needs; a stored result with others is measured again.
OURS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "fast": {"preset": "fast"},
    "balanced": {"preset": "balanced"},
    "balanced, undamped": {"preset": "balanced", "dampen": False},  # what peers read
    "best": {"preset": "best"},
    "paper, ten bagged": {"preset": "paper"} | TEN,
    "balanced, ten bagged": {"preset": "balanced"} | TEN,
    "best, ten bagged": {"preset": "best"} | TEN,
}


@dataclass(frozen=True)
class Contender:
    """A library under one setting."""

    name: str
    system: str  # the program bench.run_SYSTEM
    setting: str
    parameters: dict[str, Any] | None = None  # of Hedgerow; a peer's are in its program
    only: tuple[str, ...] = field(default=NAMES)  # the data sets that it can do in reasonable time

    @property
    def ours(self) -> bool:
        return self.parameters is not None


FEW = (
    Contender("PECOS", "pecos", "tfn"),
    Contender("omikuji Bonsai", "omikuji", "bonsai"),
    Contender("LinearSVC", "linear_svc", "default", only=("eurlex-4k", "debian-tags")),
)
PEERS = {"none": (), "few": FEW, "all": (*FEW, Contender("PECOS tfn+man", "pecos", "tfn+man"))}
HEDGEROW = tuple(Contender(f"Hedgerow {name}", "named", name, each) for name, each in OURS.items())


@dataclass(frozen=True)
class Run:
    """One contender with one seed on one data set."""

    dataset: str
    contender: Contender
    seed: int

    @property
    def stored(self) -> Path:
        setting = self.contender.setting.replace(", ", "-").replace(" ", "-")
        return RAW / f"{self.dataset}.frontier.{self.contender.system}.{setting}.{self.seed}.json"

    def result(self) -> dict[str, Any] | None:
        """Return the stored measurement; None where there is none yet, or one of other parameters."""
        if not self.stored.exists():
            return None
        result: dict[str, Any] = json.loads(self.stored.read_text())
        asked = self.contender.parameters
        return None if asked is not None and result["settings"] != asked else result

    def measure(self, folder: Path, answers: Path, limits: tuple[float, float]) -> dict[str, Any]:
        """Run the program of the contender in its own environment; it writes its answers to `answers`."""
        python = PYTHONS["hedgerow" if self.contender.ours else "peers"]
        command = [str(python), "-m", f"bench.run_{self.contender.system}", str(folder)]
        command += [self.contender.setting, "--seed", str(self.seed), "--ranked", str(answers)]
        command += ["--timeout", str(limits[0]), "--memory", str(limits[1])]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if ended.returncode:
            # The program itself outlives a step that dies, so this is a broken set-up and no measurement.
            raise RuntimeError(f"{' '.join(command)} did not run:\n{ended.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(ended.stdout)
        return result

    def keep(self, result: dict[str, Any]) -> None:
        store(self.stored, result)


def runs(datasets: list[str], peers: str, seeds: int) -> list[Run]:
    """All runs, one data set after the other; everyone has the first seed before anyone has the second."""
    return [
        Run(dataset, contender, seed)
        for dataset in datasets
        for seed in range(seeds)
        for contender in (*HEDGEROW, *PEERS[peers])
        if dataset in contender.only
    ]


def stored_seeds(dataset: str, contender: Contender) -> list[dict[str, Any]]:
    """All stored measurements of a contender on a data set, by seed."""
    pattern = Run(dataset, contender, 0).stored.name.removesuffix("0.json")
    seeds = sorted(int(path.name.split(".")[-2]) for path in RAW.glob(f"{pattern}*.json"))
    found = (Run(dataset, contender, seed).result() for seed in seeds)
    return [result for result in found if result is not None]
