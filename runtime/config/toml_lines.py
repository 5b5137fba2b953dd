"""The line of each key in a TOML document, for error messages.

tomllib checks the document and reads the values. This scanner only finds the positions, so it may
be lenient: it never gets a document that tomllib refuses.
"""

import re
import tomllib
from bisect import bisect_left

KeyPath = tuple[str | int, ...]

_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_KEY = re.compile(rf"(?:{_PART.pattern})(?:[ \t]*\.[ \t]*(?:{_PART.pattern}))*")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
# A multi-line string ends at the first unescaped triple quote. Up to two quotes directly before it
# belong to the content.
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
    r"|[^,\]}#\n]+",
    re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every table header, key, array item and [[table]] of a document
    that tomllib accepts.

    A table that only appears inside longer names (`a` of `[a.b]`) has the line where it is first
    named. Raises ValueError if the text is not TOML.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


def split_key(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted key: `a."b.c".d` gives ("a", "b.c", "d"). Raises ValueError if
    the text is not a TOML key."""
    if not _KEY.fullmatch(text.strip(" \t")):
        raise ValueError(f"{text!r} is not a dotted key")
    return tuple(_unquoted(part) for part in _PART.findall(text))


def _unquoted(part: str) -> str:
    return str(tomllib.loads(f"k = {part}")["k"]) if part[0] in "\"'" else part


class _Scanner:
    """One pass over a document. `pos` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.lines: dict[KeyPath, int] = {}
        self._tables: dict[KeyPath, int] = {}  # how many [[tables]] of each name so far
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def document(self) -> None:
        table: KeyPath = ()
        while self._skip_blank() < len(self.text):
            if self.text[self.pos] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        line = self._line()
        is_array = self.text.startswith("[[", self.pos)
        self.pos += 1 + is_array
        self._skip_blank()
        *parents, last = split_key(self._take(_KEY))
        self._skip_blank()
        self.pos += 1 + is_array
        path: KeyPath = ()
        for part in parents:
            path = self._newest((*path, part), line)
        path = (*path, last)
        if is_array:
            self._tables[path] = self._tables.get(path, 0) + 1
            path = self._newest(path, line)
        self.lines[path] = line
        return path

    def _newest(self, path: KeyPath, line: int) -> KeyPath:
        """Return the path of a table that a header's name leads through. Of [[tables]] the latest
        is meant."""
        self.lines.setdefault(path, line)
        return (*path, self._tables[path] - 1) if path in self._tables else path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = table
        for part in split_key(self._take(_KEY)):
            path = (*path, part)
            self.lines.setdefault(path, line)
        self._skip_blank()
        self.pos += 1  # the "="
        self._skip_blank()
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        first = self.text[self.pos : self.pos + 1]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            self._take(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        index = 0
        while not self._closes("]"):
            self.lines[*path, index] = self._line()
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, bracket: str) -> bool:
        """Skip an opening bracket or a comma, and the closing bracket if it is next. Returns
        whether the closing bracket was reached."""
        self._skip_blank()
        if self.text[self.pos : self.pos + 1] in ("[", "{", ","):
            self.pos += 1
        self._skip_blank()
        is_end = self.text.startswith(bracket, self.pos)
        self.pos += is_end
        return is_end

    def _skip_blank(self) -> int:
        self._take(_BLANK)
        return self.pos

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.pos)
        if match is None:
            raise ValueError(f"line {self._line()}: not TOML")
        self.pos = match.end()
        return match.group()

    def _line(self) -> int:
        return bisect_left(self._newlines, self.pos) + 1
