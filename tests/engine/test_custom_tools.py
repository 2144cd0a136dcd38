"""OpenAI's custom tools: a grammar in one is refused, where the engine would only describe it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import requests

from lave_plugin.engines.sglang import custom_tools

pytestmark = pytest.mark.engine

GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "a+"}


def test_a_grammar_is_refused_where_constraints_are_kept(monkeypatch):
    """The hook alone: `/v1/responses` needs packages that a CPU installation does without.

    The engine answers with 400 and `f"{error} {error.__cause__}"`.
    """
    for flag, refused in (("none", False), ("lave", True)):
        server_args = SimpleNamespace(_constrained_decoding=flag)
        monkeypatch.setattr(custom_tools, "_server_args", lambda args=server_args: args)
        for form in (None, {"type": "text"}, GRAMMAR):
            if refused and form is GRAMMAR:
                with pytest.raises(ValueError, match="only tells the model about it") as error:
                    custom_tools.refuse_grammar("draws", form)
                assert str(error.value.__cause__).startswith("Leave the format out")
            else:
                assert custom_tools.refuse_grammar("draws", form) is None


def test_the_chat_api_has_no_such_tools(lave_server):
    tool = {"type": "custom", "custom": {"name": "f", "format": GRAMMAR}}
    body = {"model": "default", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    response = requests.post(f"{lave_server.url}/v1/chat/completions", json=body, timeout=20)
    assert response.status_code == 400
    assert "function" in response.text
