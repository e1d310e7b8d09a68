"""Do what docs/decisions.md shows, print what the commands say there, and draw docs/decisions.svg.

python docs/make_decisions.py EURLEX FOLDER

The test rows of EURLEX (train.txt and test.txt, packed or not) are shuffled: 2,500 become FOLDER/held-out,
the others FOLDER/new.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from hedgerow import load
from hedgerow.cli.inputs import OpenModel, Selection
from hedgerow.data import read_part, write_xmc_text
from hedgerow.decisions.outcomes import Outcome, Tally
from hedgerow.decisions.wishes import Wish, rule_for
from hedgerow.votes.batches import answer_batches

OUT = Path(__file__).with_name("decisions.svg")
HELD_OUT = 2500
WIDTH, HEIGHT, LEFT, TOP, WIDE, HIGH, GAP = 860, 340, 62, 46, 320, 220, 110
STYLE = """
text { font: 13px sans-serif; fill: #1b1f24 } .small { font-size: 12px } .axis { stroke: #6e7781 }
.grid { stroke: #6e778133 } path { fill: none; stroke-width: 2.2 }
.guaranteed { stroke: #6e7781; stroke-dasharray: 5 4 } .missed { stroke: #0a6ecb } .wrong { stroke: #bf4b00 }
.accept { stroke: #1a7f37 } .review { stroke: #8a5cd1 }
text.missed { fill: #0a6ecb; stroke: none } text.wrong { fill: #bf4b00; stroke: none }
text.accept { fill: #1a7f37; stroke: none } text.review { fill: #8a5cd1; stroke: none }
text.guaranteed { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .missed { stroke: #58a6ff } .wrong { stroke: #f0883e } .accept { stroke: #3fb950 }
.review { stroke: #b392f0 } text.missed { fill: #58a6ff } text.wrong { fill: #f0883e }
text.accept { fill: #3fb950 } text.review { fill: #b392f0 } text.guaranteed { fill: #9aa4ae } }
"""


def main(eurlex: Path, folder: Path) -> None:
    """Cut, fit, calibrate, decide and judge; then draw what comes of many risks."""
    model, held_out, new = folder / "eurlex.hedgerow", folder / "held-out", folder / "new"
    test = read_part(eurlex, "test")
    order = np.random.default_rng(0).permutation(test.X.shape[0])
    for part, rows in ((held_out, order[:HELD_OUT]), (new, order[HELD_OUT:])):
        part.mkdir(parents=True, exist_ok=True)
        write_xmc_text(part / "test.txt", test.X[rows], test.Y[rows])
    hedgerow("fit", eurlex, model, "--method", "bagging", "--seed", 0, "--overwrite")
    hedgerow("calibrate", model, held_out)
    hedgerow("decide", model, new, "--risk", 0.1)
    hedgerow("evaluate", model, new)
    draw(model, new)


def hedgerow(*arguments: object) -> None:
    """Run a command for a terminal of 110 columns."""
    print("$ hedgerow", *arguments, flush=True)
    words = [str(argument) for argument in arguments]
    subprocess.run(
        [sys.executable, "-m", "hedgerow", *words], env={**os.environ, "COLUMNS": "110"}, check=True
    )


def draw(model_path: Path, data: Path) -> None:
    """Decide at many risks, and draw what comes of it."""
    model = load(model_path)
    rows = OpenModel(model_path, model).read_truth(
        Selection(data, labels_field="labels"), lambda share, what: None
    )
    X, truth = rows.inputs, rows.truth
    tallies: dict[float, Tally] = {}
    for risk in np.arange(0.02, 0.4001, 0.01).round(3).tolist():
        try:
            rule, _ = rule_for(Wish(risk=risk), model.policy_, model.label_counts_)
        except ValueError:
            continue  # below what can be guaranteed
        tallies[risk] = Tally(rule)
    for rows, answer in answer_batches(model.source, X, "deciding"):
        for tally in tallies.values():
            tally.add(answer.votes, truth[rows])
    OUT.write_text(drawn({risk: tally.finish() for risk, tally in tallies.items()}), encoding="utf-8")


def drawn(found: dict[float, Outcome]) -> str:
    """The picture."""
    risks = list(found)
    shares = Panel(
        0, 0.4, "mean share", [(value, f"{100 * value:.0f} %") for value in (0, 0.1, 0.2, 0.3, 0.4)]
    )
    most = np.log10(max(of.reviewed for of in found.values())) + 0.1
    ticks = [(np.log10(value), f"{value:g}") for value in (0.1, 1, 10, 100, 1000)]
    work = Panel(1, most, "labels of an input", [tick for tick in ticks if tick[0] <= most], np.log10(0.1))
    parts = [
        *shares.frame("Guaranteed and kept"),
        shares.line("guaranteed", risks, risks),
        shares.line("missed", risks, [of.missed for of in found.values()]),
        shares.line("wrong", risks, [of.wrong for of in found.values()]),
        shares.label("guaranteed: at most this", "guaranteed", 0.02, 0.37),
        shares.label("true labels rejected", "missed", 0.02, 0.335),
        shares.label("accepted labels wrong", "wrong", 0.02, 0.30),
        *work.frame("What is left for people"),
        work.line("accept", risks, [np.log10(max(of.accepted, 0.1)) for of in found.values()]),
        work.line("review", risks, [np.log10(max(of.reviewed, 0.1)) for of in found.values()]),
        work.label("accepted", "accept", 0.2, np.log10(found[0.2].accepted) - 0.35),
        work.label("to review", "review", 0.16, np.log10(found[0.16].reviewed) + 0.25),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    title = "<title>Shares that are guaranteed and kept, and labels to accept and to review, by risk</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


class Panel:
    """One of the two charts; x is the risk asked for."""

    def __init__(
        self, number: int, high: float, title: str, ticks: list[tuple[float, str]], low: float = 0.0
    ) -> None:
        self.x0 = LEFT + number * (WIDE + GAP)
        self.low, self.high, self.title, self.ticks = low, high, title, ticks

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies."""
        share = (y - self.low) / (self.high - self.low)
        return self.x0 + WIDE * x / 0.4, TOP + HIGH * (1 - share)

    def frame(self, heading: str) -> list[str]:
        """Heading, axes and grid."""
        bottom = TOP + HIGH
        parts = [f'<text x="{self.x0}" y="16" font-weight="bold">{heading}</text>']
        for value, name in self.ticks:
            y = self.place(0, value)[1]
            parts.append(
                f'<line class="grid" x1="{self.x0}" x2="{self.x0 + WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(
                f'<text class="small" x="{self.x0 - 7}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
            )
        for risk in (0, 0.1, 0.2, 0.3, 0.4):
            x = self.place(risk, self.low)[0]
            place = f'x="{x:.1f}" y="{bottom + 19}" text-anchor="middle"'
            parts.append(f'<text class="small" {place}>{100 * risk:.0f} %</text>')
        middle = self.x0 + WIDE / 2
        parts.append(
            f'<line class="axis" x1="{self.x0}" x2="{self.x0 + WIDE}" y1="{bottom}" y2="{bottom}"/>'
            f'<text class="small" x="{middle}" y="{bottom + 42}" text-anchor="middle">risk asked for</text>'
            f'<text class="small" x="{self.x0 - 40}" y="{TOP - 12}">{self.title}</text>'
        )
        return parts

    def line(self, kind: str, x: list[float], y: list[float]) -> str:
        """A curve."""
        points = " L".join("{:.1f} {:.1f}".format(*self.place(*point)) for point in zip(x, y, strict=True))
        return f'<path class="{kind}" d="M{points}"/>'

    def label(self, text: str, kind: str, x: float, y: float) -> str:
        """Words beside a curve."""
        left, top = self.place(x, y)
        return f'<text class="{kind}" x="{left:.1f}" y="{top:.1f}">{text}</text>'


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
