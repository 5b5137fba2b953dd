"""How a collective's members share the work out. What they sum is tested with the other exchanges."""

from __future__ import annotations

from roles.exchange.collective import shares


def test_shares_cover_everything_once_and_begin_with_cache_lines() -> None:
    for size in (0, 1, 15, 16, 17, 100, 4097):
        for members in (1, 2, 3, 7):
            found = shares(size, members)
            assert [n for low, high in found for n in range(low, high)] == list(range(size))
            assert len(found) == members and all(low % 16 == 0 or low == size for low, _ in found)
            assert max(high - low for low, high in found) - size / members < 2 * 16
