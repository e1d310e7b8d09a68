"""Changes one token of the code at a time, and counts how often the tests notice.

`python tests/trust/mutate.py --out docs/reliability/mutation.json`. A seeded sample of mutants of the files
below: comparisons, arithmetic, constants, logic, minima and maxima, left-out statements. Each is built in a
copy of the tree (-O1, only the kernels for this processor) and run against the tests of its file; it is
killed if one fails or does not end. What does not compile is not counted. `build/mutate/tried.jsonl` keeps
what was tried, so a run that was stopped goes on; `--again` tries only those that survived, for instance with
new tests.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tokenize
import venv
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WORK = ROOT / "build/mutate"
TREE = WORK / "tree"
COPIED = ("CMakeLists.txt", "pyproject.toml", "native", "src", "tests")
# What is mutated, and the tests that should notice, quick ones first.
TARGETS = {
    "native/uncertainty.cpp": ("uncertainty", "ensemble"),
    "native/kernels/measures.h": ("uncertainty", "ensemble"),
    "native/kernels/vote_measures.h": ("uncertainty", "truth", "ensemble"),
    "native/judgement.cpp": ("truth",),
    "native/beam_search.cpp": ("search",),
    "native/vote_search.cpp": ("votes", "ensemble"),
    "native/descent.cpp": ("search", "votes", "ensemble"),
    "native/candidates.cpp": ("votes", "ensemble"),
    "native/reach.cpp": ("search", "ood"),
    "native/best_labels.cpp": ("calibration",),
    "src/hedgerow/votes/measures.py": ("uncertainty",),
    "src/hedgerow/votes/truth.py": ("truth",),
    "src/hedgerow/evaluation/confidence.py": ("metrics",),
    "src/hedgerow/evaluation/ood.py": ("metrics",),
    "src/hedgerow/evaluation/ranking.py": ("metrics",),
}
SWAPS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "*=": "+="},
    **{"&&": "||", "||": "&&", "and": "or", "or": "and", "true": "false", "false": "true"},
    **{
        "True": "False",
        "False": "True",
        "min": "max",
        "max": "min",
        "minimum": "maximum",
        "maximum": "minimum",
    },
    **{"any": "all", "all": "any", "argmin": "argmax", "argmax": "argmin"},
}
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:e-?\d+)?f?|\d+)(?![\w.])")
# clang-format sets operators between spaces, and the brackets of templates not.
OPERATOR = re.compile(
    r"(?<= )(<=|>=|<|>|==|!=|\+=|-=|\*=|\+|-|\*|/|&&|\|\|)(?= )|\b(true|false)\b|(?<=std::)(min|max)\b"
)
STATEMENT = re.compile(
    r"^\s+(?!return\b|throw\b|using\b|case\b|const\b|auto\b|static)[\w.\->\[\]():]+(\(.*\)| [+*-]?= .*);$"
)
DROPPED = re.compile(r"^\s+(continue|break);$")
# Mutants that change nothing that can be seen: (file, line as mutated or statement left out) and why.
EQUIVALENT = {
    ("native/kernels/vote_measures.h", "if (lanes != kWide) return load<Wide>(from);"): (
        "full vectors take the way of the others, and those read beyond the end what is then thrown away;"
        " only make sanitize can see that"
    ),
    (
        "native/kernels/vote_measures.h",
        "float apart[17 * kAtOnce];",
    ): "a larger local array, of which no more is used",
    (
        "native/kernels/vote_measures.h",
        "const std::int64_t first = m + 4 < members ? m : members - 4;",
    ): "where m + 4 is members, members - 4 is m",
    ("native/kernels/vote_measures.h", "double lanes_of[kMeasures][17] = {};"): (
        "a local array with one place more, which stays 0 and is added as such"
    ),
    (
        "native/vote_search.cpp",
        "double entropy(double p)"
        " { return p <= 0 || p > 1 ? 0 : -p * std::log(p) - (1 - p) * std::log1p(-p); }",
    ): "no probability that it is asked for is above one half",
    ("native/vote_search.cpp", "if (workers <= 2) {"): (
        "two threads leave all trees to one; the bits are the same, only later"
    ),
    (
        "native/kernels/vote_measures.h",
        "for (int i = 0; i < 5; ++i) __builtin_memcpy(room + 16 * i, &turned[i], 16);",
    ): "copies what lies behind an array to where the next square comes; only make sanitize can see that",
    ("native/beam_search.cpp", "constexpr int kVisitsBetweenChecks = 65;"): (
        "looks a little later whether it shall stop"
    ),
    ("native/beam_search.cpp", "items_.erase(end, items_.end());"): (
        "what is not thrown away at once is sorted out at the end"
    ),
    (
        "native/beam_search.cpp",
        "static_cast<std::size_t>((X.rows + block - 1) * block), threads, watch,"
        " [&](std::size_t task, int worker) {",
    ): "more tasks, which have no rows",
    (
        "src/hedgerow/evaluation/ranking.py",
        "columns = np.shape(Y)[1] if len(np.shape(Y)) == 2 else 1",
    ): "what has no columns is refused in the next line",
    ("native/beam_search.cpp", "std::int64_t lookups = 1;"): (
        "a table of rows is worth it one lookup earlier; it finds the same rows"
    ),
}


@dataclass(frozen=True)
class Mutant:
    """One line, changed."""

    file: str
    line: int
    before: str
    after: str


def mutants(name: str) -> list[Mutant]:
    """All mutants of a file."""
    text = (ROOT / name).read_text()
    found = _in_python(text) if name.endswith(".py") else _in_cpp(text)
    return [Mutant(name, line, before, after) for line, before, after in found if before != after]


def _in_cpp(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition("//")[0].rstrip()
        if (
            not code.strip()
            or code.lstrip().startswith(("#", "template", "using", "static_assert"))
            or '"' in code
        ):
            continue
        if STATEMENT.match(code) or DROPPED.match(code):
            yield number, line, re.match(r"\s*", code)[0] + ";"  # type: ignore[index]
        for found in OPERATOR.finditer(code):
            yield number, line, code[: found.start()] + SWAPS[found[0]] + code[found.end() :]
        for found in NUMBER.finditer(code):
            yield number, line, code[: found.start()] + _other_number(found[0]) + code[found.end() :]


def _in_python(text: str) -> Iterator[tuple[int, str, str]]:
    lines = text.splitlines()
    first = True  # of its line: an operator there is a decorator or the like
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = lines[token.start[0] - 1] if token.start[0] <= len(lines) else ""
        if token.start[0] != token.end[0] or line.lstrip().startswith(
            ("def ", "import ", "from ", "@", "class ")
        ):
            continue
        before, after = line[: token.start[1]], line[token.end[1] :]
        if token.type in (tokenize.OP, tokenize.NAME) and token.string in SWAPS and not first:
            # Not the star of a call, nor the bar of a type.
            if token.string == "*" and not before.endswith(" "):
                continue
            yield token.start[0], line, before + SWAPS[token.string] + after
        elif token.type == tokenize.NAME and token.string == "not":
            yield token.start[0], line, before + after.lstrip()
        elif token.type == tokenize.NUMBER and re.fullmatch(NUMBER, token.string):
            yield token.start[0], line, before + _other_number(token.string) + after
        first = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def _other_number(number: str) -> str:
    if "." not in number:
        return str(int(number) + 1)
    value = float(number.rstrip("f"))
    return f"{value * 2 if value else 1.0}{'f' if number.endswith('f') else ''}"


def sample(native: int, python: int, seed: int) -> list[Mutant]:
    """So many of each kind, spread over the files by their number of mutants."""
    chosen = []
    draw = random.Random(seed)
    for ending, count in ((".py", python), ("", native)):
        names = [name for name in TARGETS if name.endswith(".py") == (ending == ".py")]
        every = [mutant for name in names for mutant in mutants(name)]
        chosen += draw.sample(every, min(count, len(every)))
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.line, mutant.after))


def set_up() -> Path:
    """Copy the tree and build it; return the Python that sees only the copy."""
    for name in COPIED:
        for file in [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"):
            if file.is_file() and file.suffix not in (".so", ".pyc"):
                copy_if_other(file, TREE / file.relative_to(ROOT))
    # Quicker to compile; the kernels ask for -O3 by themselves.
    recipe = TREE / "CMakeLists.txt"
    recipe.write_text(recipe.read_text().replace("-O3", "-O1"))
    python = WORK / "venv/bin/python"
    if not python.exists():
        venv.create(WORK / "venv", symlinks=True)
    borrowed = [str(TREE / "src"), *(path for path in sys.path if path.endswith("-packages"))]
    target = next((WORK / "venv/lib").glob("python*/site-packages/"))
    (target / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    flags = ["-DCMAKE_BUILD_TYPE=Mutants", "-DCMAKE_CXX_FLAGS=-O1 -march=native", "-DCMAKE_SYSTEM_NAME=Linux"]
    # Named as another processor, so that the kernels are built only once.
    flags += ["-DCMAKE_SYSTEM_PROCESSOR=any", f"-DPython_EXECUTABLE={python}"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", TREE, "-B", WORK / "native", *flags],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
    )
    if not build():
        raise RuntimeError(f"the tree does not build; see: ninja -C {WORK / 'native'}")
    return python


def copy_if_other(source: Path, target: Path) -> None:
    """Leave a file alone that is the same, or it would be compiled again."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copyfile(source, target)


def build() -> bool:
    """Compile what changed."""
    ninja = Path(sys.executable).with_name("ninja")
    done = subprocess.run([ninja, "-C", WORK / "native", "_native"], capture_output=True, check=False)
    for library in (WORK / "native").glob("_native*.so"):
        shutil.copyfile(library, WORK / "new.so")
        os.replace(WORK / "new.so", TREE / "src/hedgerow" / library.name)
    return done.returncode == 0


class Tests:
    """Runs the tests of files on the copy of the tree."""

    def __init__(self, python: Path) -> None:
        self._seconds: dict[str, float] = {}
        self._process = subprocess.Popen(
            [python, Path(__file__).with_name("mutate_worker.py")],
            cwd=TREE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def measure(self) -> None:
        """See how long the tests of every file take without a mutant, and that all pass."""
        for name in TARGETS:
            for file in tests_of(name):
                if file not in self._seconds:
                    start = time.monotonic()
                    if self._fails(file, 3600):
                        raise RuntimeError(f"{file} fails without any mutant")
                    self._seconds[file] = time.monotonic() - start

    def notice(self, name: str) -> bool:
        """Whether a test of a file fails, or takes so long that it may never end."""
        return any(self._fails(file, 30 + 5 * self._seconds[file]) for file in tests_of(name))

    def _fails(self, file: str, seconds: float) -> bool:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([file, seconds]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()) != 0


def tests_of(name: str) -> list[str]:
    """The files whose tests should notice a mistake in this one, quick ones first."""
    examples = [str(TREE / name)] if name.endswith(".py") else []
    return examples + [str(TREE / f"tests/test_{test}.py") for test in TARGETS[name]]


def outcome(mutant: Mutant, tests: Tests) -> str:
    """Killed, survived or not compiled."""
    source = TREE / mutant.file
    whole = source.read_text()
    lines = whole.splitlines()
    lines[mutant.line - 1] = mutant.after
    source.write_text("\n".join(lines) + "\n")
    try:
        # Also for Python: the one before may have left its library.
        if not build():
            return "not compiled"
        return "killed" if tests.notice(mutant.file) else "survived"
    finally:
        source.write_text(whole)


def summary(tried: dict[Mutant, str], chosen: int) -> dict[str, object]:
    """Counts for each file, and every survivor by name."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in TARGETS}
    survivors, equivalent = [], []
    for mutant, ended in tried.items():
        line = mutant.before if mutant.after.strip() == ";" else mutant.after
        reason = EQUIVALENT.get((mutant.file, line.strip()))
        if ended == "survived" and reason is not None:
            ended = "equivalent"
            equivalent.append({**asdict(mutant), "reason": reason})
        elif ended == "survived":
            survivors.append(asdict(mutant))
        counts[mutant.file][ended] += 1
    return {
        "chosen": chosen,
        "tried": len(tried),
        "files": counts,
        "survived": survivors,
        "equivalent": equivalent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--native", type=int, default=80)
    parser.add_argument("--python", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="try only what survived")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tests = Tests(set_up())
    diary = WORK / "tried.jsonl"
    known: dict[Mutant, str] = {}
    for line in diary.read_text().splitlines() if diary.exists() else []:
        found = json.loads(line)
        known[Mutant(**found["mutant"])] = found["ended"]
    tried = {}
    tests.measure()
    chosen = sample(arguments.native, arguments.python, arguments.seed)
    random.Random(arguments.seed).shuffle(
        chosen
    )  # so that a run that was stopped has tried some of each file
    for mutant in chosen:
        if mutant not in known or (arguments.again and known[mutant] == "survived"):
            known[mutant] = outcome(mutant, tests)
            with diary.open("a") as file:
                file.write(json.dumps({"mutant": asdict(mutant), "ended": known[mutant]}) + "\n")
            print(f"{known[mutant]:12} {mutant.file}:{mutant.line} {mutant.after.strip()}", flush=True)
        tried[mutant] = known[mutant]
        if arguments.out:
            arguments.out.write_text(json.dumps(summary(tried, len(chosen)), indent=1) + "\n")


if __name__ == "__main__":
    main()
