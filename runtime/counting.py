"""Numbers of things in words: "1 image", "2 images"."""

_ES = ("ss", "ch", "x")  # class -> classes, batch -> batches


def counted(count: int, noun: str) -> str:
    """Return the number and the noun, in the plural unless the number is 1."""
    ending = "" if count == 1 else "es" if noun.endswith(_ES) else "s"
    return f"{count} {noun}{ending}"
