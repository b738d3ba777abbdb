"""Pages of the reference made from the code, and links that leave docs/.

mkdocs.yml names this file as a hook. Nothing is written into docs/.
"""

from __future__ import annotations

import functools
import importlib
import posixpath
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "modgap"
PYTHON, COMMANDS = "reference/python.md", "reference/command-line.md"
LEAVING = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)((?:#[^)]*)?\))")


def on_config(config: MkDocsConfig) -> None:
    """Put the generated pages into the navigation, below the page that lists them."""
    reference = next(part["Reference"] for part in config.nav or [] if "Reference" in part)
    for title, listing, names in (
        ("Python", PYTHON, packages()),
        ("Command line", COMMANDS, commands()),
    ):
        pages = [{name: _below(listing, name)} for name in names]
        reference.insert(0, {title: [listing, *pages]})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add a page for each package and each command."""
    for name in packages():
        files.append(File.generated(config, _below(PYTHON, name), content=package_page(name)))
    for name, text in commands().items():
        files.append(File.generated(config, _below(COMMANDS, name), content=text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the lists of packages and commands; links that leave docs/ go to the repository."""
    here = page.file.src_uri
    if here == PYTHON:
        for name in packages():
            linked = f"[`{name}`](python/{name.replace('.', '-')}.md)"
            markdown = re.sub(rf"^(\|.*?)`{re.escape(name)}`", rf"\1{linked}", markdown, flags=re.M)
    if here == COMMANDS:
        rows = [f"| [`{name}`]({_below('command-line.md', name)}) |" for name in commands()]
        markdown = "\n".join([markdown, "", "| command and its options |", "|---|", *rows])

    def led(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(here), link[2]))
        if target.startswith("docs/"):
            return link[0]
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{link[1]}{config.repo_url}/{kind}/main/{target}{link[3]}"

    return LEAVING.sub(led, markdown)


@functools.cache
def packages() -> list[str]:
    """The packages that docs/reference/python.md lists."""
    text = (ROOT / "docs" / PYTHON).read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\|[^|]*\|", text, flags=re.MULTILINE))
    return re.findall(r"`(modgap(?:\.\w+)?)`", rows)


def package_page(name: str) -> str:
    """Every public name of a package, for mkdocstrings; packages have pages of their own."""
    folder = SOURCE.parent.joinpath(*name.split("."))
    lines = [
        f"# `{name}`",
        f"::: {name}\n    options: {{show_root_heading: false, members: false}}",
    ]
    names = [
        one
        for one in importlib.import_module(name).__all__
        if not one.startswith("_") and not (SOURCE / one / "__init__.py").exists()
    ]
    for title, shown in (
        ("Functions", [one for one in names if one[0].islower()]),
        ("Classes and constants", [one for one in names if one[0].isupper()]),
    ):
        lines += [f"## {title}"] * bool(shown)
        for one in shown:
            # A function in a file of its name: the path alone would be that of the file.
            inside = f".{one}" if (folder / f"{one}.py").exists() else ""
            lines.append(f"::: {name}.{one}{inside}")
    return "\n\n".join(lines) + "\n"


@functools.cache
def commands() -> dict[str, str]:
    """The page of each command, from what typer writes of it."""
    call = [sys.executable, "-m", "typer", "modgap.cli.app", "utils", "docs", "--name", "modgap"]
    text = subprocess.run(call, check=True, capture_output=True, encoding="utf-8").stdout
    parts = re.split(r"^##+ `(modgap .*?)`$", text, flags=re.MULTILINE)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    # A command may have several examples; they stand together as one block.
    example = re.compile(r"(?:^Example: .*\n+)+", re.MULTILINE)
    return {
        name: f"# `{name}`\n{example.sub(_as_block, words)}"
        for name, words in found.items()
        if "**Commands**" not in words
    }


def _as_block(examples: re.Match[str]) -> str:
    lines = [line.removeprefix("Example: ") for line in examples[0].split("\n") if line]
    return "\n".join(["```", *lines, "```", "", ""])


def _below(listing: str, name: str) -> str:
    return f"{listing.removesuffix('.md')}/{re.sub('[ .]', '-', name)}.md"
