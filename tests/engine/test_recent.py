"""The bound on the compiled grammars that are kept."""

from lave_plugin.engines.sglang.recent import RecentGrammars


def test_what_was_asked_for_longest_ago_goes_first():
    kept = RecentGrammars(limit=2)
    kept["regex", "a"] = 1
    kept["regex", "b"] = 2
    assert kept.get(("regex", "a")) == 1
    kept["regex", "c"] = 3
    assert dict(kept) == {("regex", "a"): 1, ("regex", "c"): 3}
    assert kept.get(("regex", "b")) is None
    kept["regex", "a"] = 4  # written again it is new
    kept["regex", "d"] = 5
    assert dict(kept) == {("regex", "a"): 4, ("regex", "d"): 5}
    kept.clear()
    assert not kept
