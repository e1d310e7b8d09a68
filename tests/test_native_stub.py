"""The type stub of the native module, against the module itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import hedgerow
from hedgerow import _native

STUB = Path(hedgerow.__file__).with_name("_native.pyi")
WAY_OUT = "the stub is out of date; run make stubs"


def parameters(signature: str) -> list[str]:
    """The names of the parameters in nanobind's notation, which is not Python where arrays are described."""
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    while (flat := re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", inside)) != inside:
        inside = flat
    return [part.split(":")[0].strip() for part in inside.split(",") if part.strip() not in ("", "/", "*")]


def functions_of_module(holder: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in vars(holder).items():
        if isinstance(value, type):
            found.update({f"{name}.{inner}": names for inner, names in functions_of_module(value).items()})
        elif isinstance(value, property):
            found[name] = ["self"]
        else:
            function = getattr(value, "__func__", value)  # of a static method
            if hasattr(function, "__nb_signature__"):
                found[name] = parameters(function.__nb_signature__[0][0])
    return found


def functions_of_stub(body: list[ast.stmt]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            inner = functions_of_stub(node.body)
            found.update({f"{node.name}.{name}": names for name, names in inner.items()})
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return found


def test_stub_has_the_functions_of_the_module_with_their_parameters() -> None:
    expected = functions_of_module(_native)
    assert len(expected) > 20
    assert functions_of_stub(ast.parse(STUB.read_text()).body) == expected, WAY_OUT
