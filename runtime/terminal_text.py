"""Text that is safe for the user's terminal. File names, keys, labels and others' error texts may
hold anything: a control character could move the cursor, hide a line or change the terminal."""

from __future__ import annotations

from unicodedata import category


def is_plain(text: str) -> bool:
    """Return whether text has neither control characters, such as an end of line, nor bytes that
    are not UTF-8."""
    return not any(category(character) in ("Cc", "Cs") for character in text)


def one_line(text: str) -> str:
    """Return `text` with every character that is not printable as its escape: a newline as \\n,
    escape as \\x1b."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    )


def bounded(text: str, most: int = 2000) -> str:
    """Return `text` without its middle if it has more than `most` characters."""
    half = most // 2
    return (
        text
        if len(text) <= most
        else (f"{text[:half]} ... ({len(text) - most} characters) ... {text[-half:]}")
    )


def printable(text: str) -> str:
    """Return `text` with the escapes of `one_line`, but keep its lines."""
    return "\n".join(map(one_line, text.split("\n")))
