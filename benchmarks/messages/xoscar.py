"""The xoscar actor of `benchmarks.messages`, in a module of its own: xoscar imports it by name,
others do without."""

from __future__ import annotations

import xoscar


class Echo(xoscar.Actor):  # type: ignore[misc]  # xoscar has no types
    """Answers with what it is asked."""

    def ping(self, number: int) -> int:
        """The number."""
        return number
