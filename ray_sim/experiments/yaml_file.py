"""YAML read safely, and pydantic's findings in it as problems with dotted paths."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path

import yaml
from pydantic import ValidationError

from ray_sim.model.errors import InvalidScenarioError


class _Loader(yaml.SafeLoader):
    """The safe loader, which also refuses a key given twice and reads 1e-3 as a number.

    YAML 1.1 wants a dot and a signed exponent in a float and would hand `1e-3` on as text.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' is given twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        mapping: dict[Hashable, object] = super().construct_mapping(node, deep)
        return mapping


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> object:
    """Content of a YAML file; `InvalidScenarioError` names the line where it breaks."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidScenarioError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidScenarioError(f"{path}: not a text file in UTF-8 (byte {error.start})") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> object:
    """Content of YAML text; `source` names it in errors."""
    loader = _Loader(text)
    try:
        content: object = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise InvalidScenarioError(f"{source}{where}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidScenarioError(f"{source}: not valid YAML: {reason}") from error
    finally:
        loader.dispose()
    return content


def dotted(location: tuple[int | str, ...]) -> str:
    """A place in a document, as in ``policies[2].params.quantum_s``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def problems_of(error: ValidationError, prefix: tuple[int | str, ...] = ()) -> list[str]:
    """Each finding with its place, what was expected and what was found."""
    return [_problem(finding["type"], (*prefix, *finding["loc"]), finding) for finding in error.errors()]


def _problem(kind: str, location: tuple[int | str, ...], finding: object) -> str:
    assert isinstance(finding, dict)
    place = dotted(location) or "the file"
    if kind == "extra_forbidden":
        return f"{place}: unknown key"
    if kind == "missing":
        return f"{place}: missing"
    message = str(finding["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    found = finding["input"]
    shown = "" if isinstance(found, dict | list) else f", got {found!r}"
    return f"{place}: {message}{shown}"
