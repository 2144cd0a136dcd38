"""C++ snippets under the grammar that ships, and what a compiler says of their syntax.

    python examples/cpp_snippets.py "int total(vector<int> v) returns the sum of the numbers in v"

The grammar keeps the syntax: brackets, semicolons, expressions. It knows no types and no names, so
a compiler may still complain of those.
"""

import argparse
import shutil
import subprocess

from openai import OpenAI

PROMPT = "Write in C++: {task}."
TASKS = [
    "int rate(vector<int> v) returns the sum of the even numbers in v",
    "bool probe(vector<int> v) returns whether all numbers in v are above 3",
]
# What the tiny model's functions count on.
PRELUDE = "#include <algorithm>\n#include <string>\n#include <vector>\nusing namespace std;\n"


def snippet(client: OpenAI, task: str, max_tokens: int) -> str:
    """A C++ source text."""
    answer = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": PROMPT.format(task=task)}],
        temperature=0,
        max_tokens=max_tokens,
        extra_body={"custom_params": {"lave": {"grammar": "cpp"}}},
    )
    return answer.choices[0].message.content


def complaints(source: str) -> str:
    """What ``g++ -fsyntax-only`` says of it."""
    if shutil.which("g++") is None:
        return "not tried: there is no g++"
    command = ["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    source = PRELUDE + source
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60)
    first = next((line for line in done.stderr.splitlines() if "error:" in line), "")
    return first or "compiles"


def main() -> None:
    parser = argparse.ArgumentParser(description="C++ snippets under the grammar that ships.")
    parser.add_argument("tasks", nargs="*", default=TASKS, metavar="TASK")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the SGLang server")
    arguments = parser.parse_args()
    client = OpenAI(base_url=f"{arguments.url}/v1", api_key="none", timeout=120)
    for task in arguments.tasks:
        source = snippet(client, task, arguments.max_tokens)
        print(f"// {task}\n{source}\n// g++: {complaints(source)}\n")


if __name__ == "__main__":
    main()
