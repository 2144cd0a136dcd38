"""A ReAct loop: the model thinks, calls a tool, sees what came of it, until it answers.

    python examples/agent.py "What is 17 times 23?"

A turn is JSON under a schema with one branch for each tool, so a call always names a tool that
there is, with arguments of its types: there is nothing to parse leniently and nothing to repair.
What the model does with that is its own affair; the tiny one that ships can't reason, so the loop
has an end.
"""

import argparse
import json
from datetime import date

from openai import OpenAI

MOST_TURNS = 4


def calculate(left: int, operator: str, right: int) -> str:
    """The sum, difference or product of two numbers."""
    return str({"+": left + right, "-": left - right, "*": left * right}[operator])


def today() -> str:
    """The date of today."""
    return date.today().isoformat()


NUMBER = {"type": "integer", "minimum": -9999, "maximum": 9999}
TOOLS = {
    "calculate": (
        calculate,
        {"left": NUMBER, "operator": {"enum": ["+", "-", "*"]}, "right": NUMBER},
    ),
    "today": (today, {}),
}


def closed(**properties) -> dict:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


THOUGHT = {"type": "string", "maxLength": 40}
TURN = {
    "anyOf": [
        *(
            closed(thought=THOUGHT, tool={"const": name}, arguments=closed(**arguments))
            for name, (_, arguments) in TOOLS.items()
        ),
        closed(thought=THOUGHT, answer={"type": "string", "maxLength": 60}),
    ]
}
LAST_TURN = TURN["anyOf"][-1]


def take_turn(client: OpenAI, messages: list[dict], schema: dict) -> dict:
    """What the model does next: call a tool, or answer."""
    answer = client.chat.completions.create(
        model="default",
        messages=messages,
        temperature=0,
        max_tokens=200,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "turn", "schema": schema, "strict": True},
        },
    )
    return json.loads(answer.choices[0].message.content)


def run(client: OpenAI, question: str) -> str:
    """The answer, after at most ``MOST_TURNS`` turns; in the last one there are no tools."""
    tools = ", ".join(f"{name}({', '.join(args)})" for name, (_, args) in TOOLS.items())
    messages = [{"role": "user", "content": f"{question} Tools: {tools}."}]
    for left in reversed(range(MOST_TURNS)):
        turn = take_turn(client, messages, TURN if left else LAST_TURN)
        print(f"thought  {turn['thought']}")
        if "answer" in turn:
            return turn["answer"]
        function, _ = TOOLS[turn["tool"]]
        result = function(**turn["arguments"])
        print(f"call     {turn['tool']}({json.dumps(turn['arguments'])}) = {result}")
        messages += [
            {"role": "assistant", "content": json.dumps(turn)},
            {"role": "user", "content": result},
        ]
    raise AssertionError("the last turn can only answer")


def main() -> None:
    parser = argparse.ArgumentParser(description="A ReAct loop with strict tool calls.")
    parser.add_argument("question", nargs="?", default="What is 17 times 23?")
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the SGLang server")
    arguments = parser.parse_args()
    client = OpenAI(base_url=f"{arguments.url}/v1", api_key="none", timeout=60)
    print(f"answer   {run(client, arguments.question)}")


if __name__ == "__main__":
    main()
