"""What is loaded when, what works without torch, and what type checkers are told."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import pydoc
import re
from pathlib import Path
from typing import Any

import pytest

import modgap
from command_line import python
from modules import MODULES

HEAVY = ("torch", "sklearn", "matplotlib", "plotly", "pandas", "faiss")
NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
"""
PAIRS = (
    "import numpy as np\n"
    "rng = np.random.default_rng(0)\n"
    "Z = rng.normal(size=(40, 6))\n"
    "X, Y = Z + 1 + 0.1 * rng.normal(size=Z.shape), Z - 1 + 0.1 * rng.normal(size=Z.shape)\n"
)


def loaded(code: str, names: tuple[str, ...]) -> list[str]:
    """Which of the named libraries are loaded once the code has run."""
    listing = f"import sys; print('loaded', *(n for n in {names!r} if n in sys.modules))"
    return python(f"{code}\n{listing}").splitlines()[-1].split()[1:]


def test_importing_modgap_loads_no_library_at_all():
    others = ("numpy", "scipy", "pyarrow", "safetensors", "array_api_compat", "typer", "rich")
    assert loaded("import modgap", (*HEAVY, *others)) == []


@pytest.mark.parametrize(
    "words", [["--help"], ["diagnose", "--help"], ["reproduce", "--help"], ["--version"]]
)
def test_asking_for_help_loads_nothing_heavy(words):
    code = (
        f"import sys; sys.argv = ['modgap', *{words!r}]\n"
        "from modgap.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code"
    )
    assert loaded(code, (*HEAVY, "scipy", "pyarrow", "safetensors")) == []


def test_reading_embeddings_loads_neither_torch_nor_scikit_learn(tmp_path):
    code = (
        "import numpy as np, modgap.datasets, modgap.io\n"
        f"path = {str(tmp_path / 'rows.npy')!r}\n"
        "np.save(path, np.eye(3)); modgap.open_embeddings(path).rows()"
    )
    assert loaded(code, (*HEAVY, "scipy", "pyarrow")) == []


def test_measuring_and_correcting_arrays_loads_no_torch():
    code = f"{PAIRS}import modgap; modgap.measure(X, Y); modgap.Calibrate().fit_transform(X, Y)"
    assert loaded(code, ("torch", "matplotlib", "plotly")) == []


def test_a_correction_is_applied_and_searched_with_without_scikit_learn(tmp_path):
    path = tmp_path / "c.safetensors"
    modgap.Correction.identity(3).save(path)
    code = (
        "import numpy as np, modgap\n"
        f"correction = modgap.Correction.load({str(path)!r})\n"
        "documents = list(correction.map('image').over([np.eye(3)], 'image'))\n"
        "modgap.search.search(correction.apply(np.eye(3), 'text', 'query'), documents[0], 2)"
    )
    assert loaded(code, (*HEAVY, "scipy.stats", "pandas", "pyarrow")) == []


# Packages that export nothing to users, or stand on libraries of make test-integrations.
INTERNAL = ("modgap.core", "modgap.arrays", "modgap.cli", "modgap.reproduce.", "modgap.adapters")
PACKAGES = sorted(
    found.name
    for found in pkgutil.walk_packages(modgap.__path__, "modgap.")
    if found.ispkg and not found.name.startswith(INTERNAL)
)


# sentence_transformers takes longer to import than all else together.
OWN = [name for name in MODULES if not name.startswith("modgap.adapters.")]


def test_public_names_are_the_same_whatever_was_imported_first():
    """Every public name, resolved before and after every module was imported by its own path."""
    code = (
        "import importlib, sys\n"
        f"packages = {['modgap', *PACKAGES]!r}\n"
        "def resolve():\n"
        "    return {(p, n): getattr(importlib.import_module(p), n) for p in packages\n"
        "            for n in importlib.import_module(p).__all__}\n"
        "def load():\n"
        f"    for name in {OWN!r}: importlib.import_module(name)\n"
        "for order in ('names first', 'modules first'):\n"
        "    for name in [n for n in sys.modules if n.partition('.')[0] == 'modgap']:\n"
        "        del sys.modules[name]\n"
        "    if order == 'names first': first = resolve(); load()\n"
        "    else: load(); first = resolve()\n"
        "    again = resolve()\n"
        "    assert all(first[key] is again[key] for key in first)\n"
        "    for (package, name), value in sorted(first.items()):\n"
        "        print(package, name, type(value).__name__)\n"
        "    print('end')"
    )
    # One interpreter for both: only modgap itself is imported anew, and not torch.
    listings = [one.splitlines() for one in python(code).removesuffix("end").split("end\n")]
    assert listings[0] == listings[1]
    kinds = {tuple(line.split()[:2]): line.split()[2] for line in listings[0]}
    for name in ("measure", "diagnose", "report", "load_digits", "gap_distance"):
        assert kinds["modgap", name] == "function"
    for package in PACKAGES:
        top, _, name = package.rpartition(".")
        if (top, name) in kinds:
            assert kinds[top, name] == "module", package


def test_a_package_resolves_as_an_attribute_and_holds_its_functions():
    code = "import modgap; print(modgap.measures.conformity.__name__, modgap.index.__name__)"
    assert python(code).split() == ["conformity", "modgap.index"]


def public_functions() -> list[Any]:
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isfunction(value):
                found[f"{value.__module__}.{name}"] = value
    return list(found.values())


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__qualname__)
def test_help_shows_the_signature_and_the_parameters_of_a_public_function(function):
    parameters = inspect.signature(function).parameters
    shown = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert f"{function.__name__}(" in shown
    optional = [
        p for p in parameters.values() if p.default is not p.empty or p.kind is p.VAR_KEYWORD
    ]
    if len(optional) > 2:
        section = re.search(r"Parameters\n\s*-{3,}\n(.*)", shown, re.DOTALL)
        assert section, f"{function.__module__}.{function.__name__} lists no parameters"
        for name in parameters:
            assert re.search(rf"(?<!\w){name}(?!\w)", section[1]), f"{name} is not described"


def test_an_unknown_name_is_refused_by_name():
    with pytest.raises(AttributeError, match="nothing"):
        _ = modgap.nothing  # type: ignore[attr-defined]


def test_dir_lists_the_public_names():
    assert dir(modgap) == sorted(modgap.__all__)


@pytest.mark.parametrize("stub", sorted(Path(modgap.__file__).parent.rglob("*.pyi")))
def test_a_stub_exports_what_it_imports(stub):
    """The stub is what names are resolved from, so that type checkers and Python see the same."""
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    exported = next(node for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(imported) == sorted(ast.literal_eval(exported.value))


def test_modgap_says_that_it_is_typed():
    assert (Path(modgap.__file__).parent / "py.typed").is_file()


def test_measure_diagnose_and_demo_work_without_torch(tmp_path):
    code = (
        f"{NO_TORCH}{PAIRS}import modgap, modgap.datasets\n"
        "assert modgap.measure(X, Y).gap_distance > 0\n"
        "assert modgap.diagnose(X, Y).verdict\n"
        f"sys.path.append({str(Path(__file__).parent)!r})\n"
        "from command_line import few_digits\n"
        "few = few_digits()\n"
        "modgap.datasets.load_digits = lambda: few\n"
        "from modgap.cli import main\n"
        f"sys.argv = ['modgap', 'demo', '-o', {str(tmp_path / 'demo')!r}]\n"
        "main()"
    )
    assert "Use " in python(code)
    assert (tmp_path / "demo" / "correction.safetensors").is_file()


def test_what_needs_torch_names_the_extra_that_brings_it(tmp_path):
    code = (
        f"{NO_TORCH}{PAIRS}import modgap\n"
        "from modgap.core.checks import MissingExtraError\n"
        f"path = {str(tmp_path / 'rows.pt')!r}; open(path, 'wb').write(b'rows')\n"
        "for call in (lambda: modgap.open_embeddings(path),\n"
        "             lambda: modgap.write_embeddings(path, X),\n"
        "             lambda: modgap.Calibrate().fit(X, Y).correction_.to_torch()):\n"
        "    try: call()\n"
        "    except MissingExtraError as error: print(error)"
    )
    said = python(code)
    assert said.count("needs torch, which is not installed") == 3
    assert said.count("pip install 'modgap[torch]'") == 3


def test_a_pt_file_without_torch_is_one_sentence_at_the_command_line(tmp_path):
    path = tmp_path / "rows.pt"
    path.write_bytes(b"rows")
    code = (
        f"{NO_TORCH}from modgap.cli import main\n"
        f"sys.argv = ['modgap', 'measure', {str(path)!r}]; sys.stderr = sys.stdout\n"
        "try: main()\n"
        "except SystemExit as stop: print('status', stop.code)"
    )
    sentence, status = python(code).splitlines()
    assert sentence.startswith("modgap: ")
    assert sentence.endswith("pip install 'modgap[torch]'")
    assert status == "status 2"
