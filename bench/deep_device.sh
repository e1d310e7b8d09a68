#!/usr/bin/env bash
# Run bench/deep.py or bench/deep_reproduce.py on a machine with a GPU and without a network, from what `bench.carry
# pack` and `pip download` put into carry/:
#
#   bench/deep_device.sh [options of bench.deep]
#   bench/deep_device.sh reproduce carry/data/NAME... [options of bench.deep_reproduce]
#
# The second ends by itself after LIMIT seconds, with all finished experiments in $OUT/results/experiments. It goes on
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
    "$PYTHON" -m bench.deep_reproduce "$@" --encoder "$PLACE/$ENCODER" --out "$OUT/results" --kept "$PLACE/kept" || code=$?
  if [ -d "$OUT/results/experiments" ]; then cp -R "$OUT/results/experiments" "$PLACE/results/"; fi
  find "$OUT/results" -name '*.json' | sort
  if [ $code = 124 ]; then
    echo "stopped after ${LIMIT:-560} s; the same command goes on from here"
    code=75
  fi
  exit $code
fi
exec "$PYTHON" -m bench.deep --encoder "$PLACE/$ENCODER" --data carry/data --out "$OUT/deep.json" "$@"
