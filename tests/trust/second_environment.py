"""An environment beside `.venv`, in which the extension is built in another way."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")


def second_environment(name: str, defines: list[str], packages: list[str] | None = None) -> Path:
    """Build the extension with CMake definitions into `.venv-NAME`; the path of Python there.

    It borrows the packages of the environment that runs this, but not its editable install: .pth files that
    lie in a borrowed folder are not read.
    """
    folder = ROOT / f".venv-{name}"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    site = Path(sysconfig.get_path("platlib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "borrowed.pth").write_text(sysconfig.get_path("platlib") + "\n")
    if packages:
        subprocess.run([python, *PIP, "--ignore-installed", *packages], check=True)
    options = [f"cmake.define.{define}" for define in defines]
    options += [f"build-dir=build/{name}/native", "cmake.build-type=RelWithDebInfo"]
    subprocess.run(
        [
            python,
            *PIP,
            "--no-build-isolation",
            "--no-deps",
            "-e",
            ".",
            *(f"-C{option}" for option in options),
        ],
        cwd=ROOT,
        check=True,
    )
    return python
