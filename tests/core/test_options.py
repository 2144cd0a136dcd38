"""Options of a server: what is taken, and the sentence about what is not."""

import pytest

from lave_plugin.options import InvalidOptions, LaveOptions

REFUSED = [
    ({"top_kk": 3}, "lave.top_kk is not an option; the options are top_k, "),
    ([("top_k", 3)], "lave: must be a mapping of options"),
    ({"attempts": 0}, "lave.attempts must be a whole number of at least 1, got 0"),
    ({"top_k": True}, "lave.top_k must be a whole number of at least 1, got True"),
    ({"samples": 1.5}, "lave.samples must be a whole number of at least 1, got 1.5"),
    ({"search_budget": None}, "lave.search_budget must be a whole number"),
    ({"json_max_whitespace": 0}, "lave.json_max_whitespace must be a whole number of at least 1"),
    ({"regular_states": -1}, "lave.regular_states must be a whole number of at least 0"),
    ({"plausibility": 1.01}, "lave.plausibility must be a probability, 0 to 1, got 1.01"),
    ({"plausibility": "high"}, "lave.plausibility must be a probability"),
    ({"forced_tokens": "yes"}, "lave.forced_tokens must be true or false, got 'yes'"),
    ({"json_check": 1}, "lave.json_check must be true or false, got 1"),
    ({"strategy": "lava"}, "lave.strategy must be one of lave, sequential, map"),
    ({"lookahead": "Guided"}, "lave.lookahead must be one of guided, sampled, got 'Guided'"),
    ({"confidence": None}, "lave.confidence must be one of constrained, model, got None"),
]

TAKEN = [
    (None, LaveOptions()),
    ({}, LaveOptions()),
    ({"json_max_whitespace": None}, LaveOptions(json_max_whitespace=None)),
    ({"regular_states": 0, "plausibility": 1}, LaveOptions(regular_states=0, plausibility=1)),
    ({"lookahead": "sampled", "samples": 40}, LaveOptions(lookahead="sampled", samples=40)),
]


@pytest.mark.parametrize(("mapping", "sentence"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_what_is_refused_is_named_with_what_is_allowed(mapping, sentence):
    with pytest.raises(InvalidOptions) as refusal:
        LaveOptions.from_mapping(mapping)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(("mapping", "options"), TAKEN, ids=[str(case[0]) for case in TAKEN])
def test_what_is_left_out_has_its_default(mapping, options):
    assert LaveOptions.from_mapping(mapping) == options
