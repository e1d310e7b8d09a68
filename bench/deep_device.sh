#!/usr/bin/env bash
# Run what needs a GPU on a machine without a network.
#
# Here, before: put what that machine may lack into carry/ (git ignores it; take it along):
#   bench/deep_device.sh pack                                      wheels for Python 3.12
#   python -m bench.carry pack carry --encoder PATH --data PATH    encoder and data, for benchmarks alone
# There:
#   bench/deep_device.sh tests [options of pytest]
#   bench/deep_device.sh [options of bench.deep]
#   bench/deep_device.sh reproduce carry/data/NAME... [options of hedgerow reproduce]
#
# The last ends by itself after LIMIT seconds, with all finished experiments in $OUT/results/experiments. It goes on
# from those in carry/results and, on the same machine, from what is in $PLACE: fine-tuned encoders and members.
#
# Needs python3 with torch, transformers, numpy, scipy and scikit-learn, and cmake, ninja and a C++20 compiler.
# Nothing is installed: wheels are unpacked into a folder, and only those whose package is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=true
PYTHON=${PYTHON:-python3}
PLACE=${PLACE:-build/device}
OUT=${OUT:-$PLACE}
ENCODER=${ENCODER:-MiniLM-L6}  # what the tables call the encoder in carry/

if [ "${1:-}" = pack ]; then
  exec "$PYTHON" -m pip download -q -d carry/wheels --only-binary=:all: --no-deps --python-version 3.12 \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
    scikit-build-core nanobind pathspec packaging \
    xxhash orjson zstandard joblib PyStemmer typer click shellingham annotated-doc rich markdown-it-py mdurl pygments \
    pytest pluggy iniconfig pytest-timeout hypothesis sortedcontainers attrs safetensors
fi

mkdir -p "$PLACE/site" "$PLACE/wheel" "$OUT"
export PYTHONPATH="$PWD/$PLACE/site:$PWD"

"$PYTHON" - "$PLACE/site" <<'PY'
import importlib.metadata, pathlib, sys, zipfile
import numpy, scipy, sklearn, torch, transformers
print(f"python {sys.version.split()[0]}, torch {torch.__version__}, transformers {transformers.__version__},"
      f" numpy {numpy.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__},"
      f" GPU {torch.cuda.get_device_name() if torch.cuda.is_available() else 'none'}")
for wheel in sorted(pathlib.Path("carry/wheels").glob("*.whl")):
    try:
        importlib.metadata.version(wheel.name.split("-")[0])
    except importlib.metadata.PackageNotFoundError:
        zipfile.ZipFile(wheel).extractall(sys.argv[1])
PY

if ! "$PYTHON" -c 'import hedgerow._native' 2>/dev/null; then
  start=$SECONDS
  # Where the headers of Python are missing, a wheel that was built elsewhere may do.
  "$PYTHON" - "$PLACE" <<'PY' || "$PYTHON" -m zipfile -e carry/built/hedgerow-*.whl "$PLACE/site"
import pathlib, sys, zipfile
from scikit_build_core.build import build_wheel
place = pathlib.Path(sys.argv[1]).resolve()
name = build_wheel(str(place / "wheel"), {"build-dir": str(place / "cmake")})
zipfile.ZipFile(place / "wheel" / name).extractall(place / "site")
PY
  echo "built in $((SECONDS - start)) s"
fi
cp -R src/hedgerow/. "$PLACE/site/hedgerow/"  # the wheel may be older than the sources

if [ "${1:-}" = tests ]; then
  shift
  # Without conftest.py: it imports browsers and servers, which no deep test needs.
  export PYTHONPATH="$PYTHONPATH:$PWD/tests"
  exec "$PYTHON" -m pytest --noconftest -p tiny_encoder -p no:cacheprovider --durations=5 -rs \
    tests/test_deep_*.py tests/test_cli_extend_transformer.py "$@"
fi

if [ ! -f "$PLACE/$ENCODER/model.safetensors" ]; then
  "$PYTHON" -m bench.carry unpack carry "$PLACE/$ENCODER"
fi
if [ "${1:-}" = reproduce ]; then
  shift
  mkdir -p "$OUT/results" "$PLACE/results"
  for before in carry/results "$PLACE/results"; do
    if [ -d "$before/experiments" ]; then cp -R "$before/experiments" "$OUT/results/"; fi
  done
  code=0
  timeout --signal=INT --kill-after=20 $((${LIMIT:-560} - SECONDS)) \
    "$PYTHON" -m hedgerow reproduce --batch-size 64 --learning-rate 1e-4 "$@" \
    --base transformer --encoder "$PLACE/$ENCODER" --out "$OUT/results" \
    --cache "$PLACE/kept" || code=$?
  if [ -d "$OUT/results/experiments" ]; then cp -R "$OUT/results/experiments" "$PLACE/results/"; fi
  find "$OUT/results" -name '*.json' | sort
  if [ $code = 124 ]; then
    echo "stopped after ${LIMIT:-560} s; the same command goes on from here"
    code=75
  fi
  exit $code
fi
exec "$PYTHON" -m bench.deep --encoder "$PLACE/$ENCODER" --data carry/data --out "$OUT/deep.json" "$@"
