"""YAML as plain data together with the line of every key and value, so that a mistake can name its line.

Called by catalog.load; YAML's own constructor would drop the positions and accept a key given twice.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError, SafeConstructor

from libs.core.errors import ConfigError

Path = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Mistake:
    """Something in the file that cannot be used; ``line`` counts from 1."""

    line: int
    reason: str


class CatalogError(ConfigError):
    """The file is refused; the text has one ``file:line: reason`` per mistake, in the order of the file."""

    reason = "catalog"

    def __init__(self, file: str, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(sorted(set(mistakes)))
        super().__init__("\n".join(f"{file}:{item.line}: {item.reason}" for item in self.mistakes))


@dataclass
class Marked:
    """A document: ``data`` as dicts, lists and scalars, and where each part of it stands."""

    data: Any = None
    mistakes: list[Mistake] = field(default_factory=list)
    _values: dict[Path, int] = field(default_factory=dict)
    _keys: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of the value at ``path``, or of the nearest thing around it."""
        while path not in self._values and path:
            path = path[:-1]
        return self._values.get(path, 1)

    def key_line(self, path: Path) -> int:
        """The line of the key whose value is at ``path``."""
        return self._keys.get(path) or self.line(path)

    def wrong(self, line: int, reason: str) -> None:
        self.mistakes.append(Mistake(line, reason))

    def take(self, node: yaml.Node, path: Path) -> Any:
        """Turn a node into data, noting lines and what YAML itself lets pass."""
        line = node.start_mark.line + 1
        self._values[path] = line
        if isinstance(node, yaml.SequenceNode):
            return [self.take(item, (*path, n)) for n, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        try:
            return SafeConstructor().construct_object(node, deep=True)
        except (ConstructorError, ValueError):
            self.wrong(line, f"cannot read this value as {node.tag.rpartition(':')[2]}")
            return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.wrong(line, "a field's name must be plain text")
                continue
            key = str(key_node.value)
            if key in mapping:
                self.wrong(line, f"{key!r} is given twice, first in line {self._keys[(*path, key)]}")
                continue
            self._keys[(*path, key)] = line
            mapping[key] = self.take(value_node, (*path, key))
        return mapping


class _Loader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for more values than fit into memory."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise ComposerError(None, None, "aliases (*name) cannot be used here", event.start_mark)
        return super().compose_node(parent, index)


def read_marked(text: str, file: str) -> Marked:
    """Parse ``text``; raise CatalogError when it is no YAML, note lesser mistakes in the result."""
    marked = Marked()
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is not None:
            marked.data = marked.take(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise CatalogError(file, [Mistake(mark.line + 1 if mark else 1, f"no valid YAML: {reason}")]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise CatalogError(file, [Mistake(line, "no valid YAML: a character that cannot be printed")]) from error
    except RecursionError as error:
        raise CatalogError(file, [Mistake(1, "no catalogue is nested as deep as this file")]) from error
    return marked
