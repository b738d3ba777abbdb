"""Configs from files: TOML or JSON, presets by name, and settings that take their place.

A preset is a TOML file in `presets/`. `extends` names a preset whose values hold where the file
says nothing; `description`, `command`, `time` and `expected` tell readers what to expect.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modgap.core.checks import InputError, InputTypeError, InputValueError, did_you_mean
from modgap.core.limits import read_bytes
from modgap.train.config import Config, check_section, make_config

PRESETS = Path(__file__).with_name("presets")
ABOUT = ("extends", "description", "command", "time", "expected")


def load_config(source: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Config:
    """A config from a TOML file (or a run's config.json), or from a preset's name.

    ``overrides`` are settings such as ``"train.epochs=5"``; the value is written as in TOML, and
    what is not TOML is taken as text. A temperature that is named anew loses the settings of the
    one before it.

    >>> load_config("digits", ["train.epochs=5"]).train.epochs
    5
    """
    given: dict[str, dict[str, Any]] = {}
    for setting in overrides:
        section, name, value = _setting(setting)
        given.setdefault(section, {})[name] = value
    return make_config(_over(_read(source), given))


def config_and_folder(config: str | None, output: Path | None, resume: bool) -> tuple[str, Path]:
    """Which config, and which folder: each names the other where one is left out."""
    if config is not None:
        return config, output or Path(Path(config).stem)
    if not resume or output is None:
        raise InputValueError(
            "Say what to train: a TOML file or a preset, which modgap train --list shows; "
            "or go on with a run by --resume -o FOLDER."
        )
    if not (output / "config.json").is_file():
        raise InputValueError(f"There is no run to resume in {output}: it has no config.json.")
    return str(output / "config.json"), output


def list_presets() -> dict[str, dict[str, str]]:
    """Every preset by name, with what its file says of itself."""
    found = {}
    for path in sorted(PRESETS.glob("*.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = {key: str(about[key]) for key in ABOUT if key in about}
    return found


def _read(source: str | os.PathLike[str], above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The sections of a file or preset, with those it extends; ``above`` are those extending it."""
    path = _find(source)
    if path.resolve() in above:
        raise InputValueError(f"{path} extends itself; extends must name another preset.")
    try:
        text = read_bytes(path, "a config").decode("utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputValueError(f"{path} cannot be read as a config: {error}.") from error
    if not isinstance(values, dict):
        raise InputValueError(f"{path} must hold sections such as [train], got {values!r}.")
    sections = {key: value for key, value in values.items() if key not in ABOUT}
    extends = values.get("extends")
    if extends is None:
        return _over({}, sections)
    if not isinstance(extends, str):
        raise InputTypeError(f"extends must name a preset, got {extends!r}.")
    return _over(_read(extends, (*above, path.resolve())), sections)


def _find(source: str | os.PathLike[str]) -> Path:
    path, preset = Path(source), PRESETS / f"{source}.toml"
    if path.is_file():
        return path
    if preset.is_file() and os.sep not in str(source):
        return preset
    names = list(list_presets())
    raise InputValueError(
        f"There is no config file {str(source)!r}, and no preset of that name "
        f"(presets: {', '.join(names)}).{did_you_mean(source, names)}"
    )


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections with those above in place of those below, setting by setting."""
    merged = dict(below)
    for section, settings in above.items():
        check_section(section, settings)
        anew = section == "temperature" and "name" in settings
        merged[section] = {**({} if anew else below.get(section, {})), **settings}
    return merged


def _setting(setting: str) -> tuple[str, str, Any]:
    """Section, name and value of "train.epochs=5"."""
    key, equals, text = setting.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not dot:
        raise InputValueError(
            f"A setting is written section.name=value, such as train.epochs=5, got {setting!r}."
        )
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()
    return section, name, value
