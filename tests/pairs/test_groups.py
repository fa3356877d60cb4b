"""Groups of shards: a shard that comes or goes changes its own group only."""

import pytest

from mispair.pairs.dag import shard_groups

SHARDS = [f"data/{number:05d}.tar" for number in range(23)]


@pytest.mark.parametrize("size", [1, 3, 10, 30])
@pytest.mark.parametrize("removed", [*range(23)])
def test_a_removed_or_added_shard_changes_its_own_group_only(size, removed):
    whole = shard_groups(SHARDS, size)
    fewer = shard_groups([shard for shard in SHARDS if shard != SHARDS[removed]], size)
    changed = {name for name in whole | fewer if whole.get(name) != fewer.get(name)}
    assert changed == {f"{removed // size:04d}"}


@pytest.mark.parametrize("size", [1, 3, 10, 30])
@pytest.mark.parametrize("shards", [
    ["a.tar", "b.tar", "c.tar", "d.tar"],
    ["a/00000.tar", "a/00001.tar", "b/00000.tar", "b/00001.tar"],
    ["a/0.tar", "b/1.tar", "a/2.tar", "a/3.tar"],
    ["3.tar", "1.tar", "2.tar", "0.tar"],
    [f"{number * 1000:06d}.tar" for number in range(23)],
    SHARDS,
    [],
])  # fmt: skip
def test_every_shard_is_in_one_group_in_order(shards, size):
    groups = shard_groups(shards, size)
    assert [shard for group in groups.values() for shard in group] == shards
    assert all(len(group) <= size for group in groups.values())
    assert len(groups) <= 2 * -(-len(shards) // size)
    assert all(name.isdecimal() for name in groups)
