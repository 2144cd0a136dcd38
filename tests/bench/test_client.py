"""The client: what it notes of a stream, and what is an answer and what is none."""

import pytest

from lave_plugin.bench.client import Client, ServerLost

BODY = {"model": "scripted", "messages": [], "max_tokens": 5}


def test_the_text_the_times_and_the_tokens_of_a_stream(scripted):
    client = Client(scripted(lambda body: "abcd").url)
    reply = client.send(BODY)
    assert (reply.text, reply.prompt_tokens, reply.output_tokens) == ("abcd", 7, 4)
    assert (reply.finish, reply.error) == ("stop", None)
    assert 0 < reply.ttft <= reply.latency


def test_an_answer_that_is_no_stream_and_what_the_plugin_says_of_it(scripted):
    reply = Client(scripted(lambda body: "abcd", steps=3).url).ask(BODY)
    assert (reply.text, reply.prompt_tokens, reply.output_tokens) == ("abcd", 7, 4)
    assert (reply.facts, reply.ttft == reply.latency) == ({"steps": 3}, True)
    assert Client(scripted(lambda body: "abcd").url).ask(BODY).facts is None
    assert Client(scripted(lambda body: 400).url).ask(BODY).error == "400: refused on purpose"


def test_a_refusal_is_an_answer_and_says_why(scripted):
    reply = Client(scripted(lambda body: 400).url).send(BODY)
    assert reply.error == "400: refused on purpose"
    assert reply.finish is None


def test_answers_come_in_the_order_of_the_questions(scripted):
    server = scripted(lambda body: body["messages"][0]["content"])
    bodies = [{"messages": [{"content": str(number)}]} for number in range(20)]
    replies, seconds = Client(server.url).send_all(bodies, concurrency=7)
    assert [reply.text for reply in replies] == [str(number) for number in range(20)]
    assert seconds >= max(reply.latency for reply in replies)


def test_a_server_that_is_gone_gives_no_answers(scripted):
    server = scripted(lambda body: "x")
    client = Client(server.url)
    assert client.model() == "scripted"
    server.shutdown()
    server.server_close()
    with pytest.raises(ServerLost, match=server.url):
        Client(server.url).send(BODY)
    with pytest.raises(ServerLost, match=server.url):
        Client(server.url).ask(BODY)
    with pytest.raises(ServerLost, match=server.url):
        Client(server.url).model()


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_the_root_of_a_server_may_be_written_in_any_way(scripted, ending):
    assert Client(scripted(lambda body: "x").url + ending).model() == "scripted"
