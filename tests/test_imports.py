"""What is loaded when, what works without torch, and what type checkers are told."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import modgap
from command_line import python

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


def test_importing_modgap_loads_no_library_at_all() -> None:
    others = ("numpy", "scipy", "pyarrow", "safetensors", "array_api_compat", "typer", "rich")
    assert loaded("import modgap", (*HEAVY, *others)) == []


@pytest.mark.parametrize("words", [["--help"], ["diagnose", "--help"], ["--version"]])
def test_asking_for_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['modgap', *{words!r}]\n"
        "from modgap.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code"
    )
    assert loaded(code, (*HEAVY, "scipy", "pyarrow", "safetensors")) == []


def test_reading_embeddings_loads_neither_torch_nor_scikit_learn(tmp_path: Path) -> None:
    code = (
        "import numpy as np, modgap.datasets, modgap.io\n"
        f"path = {str(tmp_path / 'rows.npy')!r}\n"
        "np.save(path, np.eye(3)); modgap.open_embeddings(path).rows()"
    )
    assert loaded(code, (*HEAVY, "scipy", "pyarrow")) == []


def test_measuring_and_correcting_arrays_loads_no_torch() -> None:
    code = f"{PAIRS}import modgap; modgap.measure(X, Y); modgap.Calibrate().fit_transform(X, Y)"
    assert loaded(code, ("torch", "matplotlib", "plotly")) == []


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import modgap.measures, modgap.diagnosis",
        "from modgap.measures import measure; from modgap.diagnosis import diagnose",
        "from modgap import diagnose, measure",
        "import modgap; modgap.gap_distance; import modgap.cli.app, modgap.measures.gap",
    ],
)
def test_measure_and_diagnose_are_functions_whatever_was_imported_first(first: str) -> None:
    code = (
        f"{first}\n{PAIRS}import modgap\n"
        "print(type(modgap.measure(X, Y)).__name__)\n"
        "try: modgap.diagnose(X[:2], Y[:2])\n"
        "except ValueError as error: print(error)\n"
        "from modgap.measures import gap_distance\n"
        "assert gap_distance is modgap.gap_distance"
    )
    measured, refused = python(code).splitlines()
    assert measured == "Measurement"
    assert refused.startswith("diagnose needs at least")


def test_every_public_name_resolves_and_is_the_one_of_its_module() -> None:
    for name in modgap.__all__:
        value = getattr(modgap, name)
        if name in modgap._HOME:
            home = importlib.import_module(modgap._HOME[name])
            assert value in (getattr(home, name), home), name


def test_an_unknown_name_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="module 'modgap' has no attribute 'nothing'"):
        _ = modgap.nothing  # type: ignore[attr-defined]


def test_dir_lists_the_public_names() -> None:
    assert dir(modgap) == sorted(modgap.__all__)


def test_the_stub_tells_type_checkers_the_same_names_from_the_same_modules() -> None:
    stub = ast.parse(Path(modgap.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"__version__": "modgap._version", **modgap._HOME}
    exported = next(node for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(exported.value)) == sorted(modgap.__all__)


def test_modgap_says_that_it_is_typed() -> None:
    assert (Path(modgap.__file__).parent / "py.typed").is_file()


def test_measure_diagnose_and_demo_work_without_torch(tmp_path: Path) -> None:
    code = (
        f"{NO_TORCH}{PAIRS}import modgap\n"
        "assert modgap.measure(X, Y).gap_distance > 0\n"
        "assert modgap.diagnose(X, Y).verdict\n"
        "from modgap.cli import main\n"
        f"sys.argv = ['modgap', 'demo', '-o', {str(tmp_path / 'demo')!r}]\n"
        "main()"
    )
    assert "Use " in python(code)
    assert (tmp_path / "demo" / "correction.safetensors").is_file()


@pytest.mark.parametrize(
    "call",
    [
        "modgap.open_embeddings(path)",
        "modgap.write_embeddings(path, X)",
        "modgap.corrections.Center().fit(X, Y).correction_.to_torch()",
    ],
)
def test_what_needs_torch_names_the_extra_that_brings_it(tmp_path: Path, call: str) -> None:
    code = (
        f"{NO_TORCH}{PAIRS}import modgap\n"
        "from modgap._validate import MissingExtraError\n"
        f"path = {str(tmp_path / 'rows.pt')!r}; open(path, 'wb').write(b'rows')\n"
        f"try: {call}\n"
        "except MissingExtraError as error: print(error)"
    )
    said = python(code)
    assert "needs torch, which is not installed" in said
    assert "pip install 'modgap[torch]'" in said


def test_a_pt_file_without_torch_is_one_sentence_at_the_command_line(tmp_path: Path) -> None:
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
