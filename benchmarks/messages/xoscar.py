"""The xoscar actor of `benchmarks.messages`. It has its own module, since xoscar imports it by name
and the other kinds do not need xoscar."""

from __future__ import annotations

import xoscar


class Echo(xoscar.Actor):  # type: ignore[misc]  # xoscar has no types
    """Returns the number that it is asked for."""

    def ping(self, number: int) -> int:
        """Return the number."""
        return number
