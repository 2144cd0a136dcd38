"""A batch job: a record for each line of a file, many at a time, with progress; it can go on.

    python examples/batch_job.py lines.txt records.jsonl

Lines that records.jsonl has already are not asked again, so an interrupted job is just started
once more.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from openai import OpenAI
from tqdm import tqdm

SCHEMA = {
    "type": "object",
    "properties": {
        "author": {"type": "string", "maxLength": 60},
        "year": {"type": "integer", "minimum": 0, "maximum": 2100},
        "pages": {"type": "integer", "minimum": 1, "maximum": 9999},
    },
    "required": ["author", "year", "pages"],
    "additionalProperties": False,
}
PROMPT = "{line} Write the book as JSON with keys author, year, pages."


def record(client: OpenAI, line: str) -> dict:
    """The book that ``line`` tells of."""
    answer = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": PROMPT.format(line=line)}],
        temperature=0,
        max_tokens=160,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "book", "schema": SCHEMA, "strict": True},
        },
    )
    return json.loads(answer.choices[0].message.content)


def main() -> None:
    parser = argparse.ArgumentParser(description="A record for each line of a file.")
    parser.add_argument("lines", type=Path)
    parser.add_argument("records", type=Path, help="JSON lines; made, or gone on with")
    parser.add_argument("--at-once", type=int, default=16, help="requests under way")
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the SGLang server")
    arguments = parser.parse_args()
    client = OpenAI(base_url=f"{arguments.url}/v1", api_key="none", timeout=120)

    done = set()
    if arguments.records.exists():
        done = {json.loads(line)["line"] for line in arguments.records.read_text().splitlines()}
    lines = dict.fromkeys(filter(None, map(str.strip, arguments.lines.read_text().splitlines())))
    left = [line for line in lines if line not in done]
    with (
        arguments.records.open("a") as out,
        ThreadPoolExecutor(arguments.at_once) as pool,
        tqdm(total=len(lines), initial=len(lines) - len(left), unit="line") as progress,
    ):
        under_way = {pool.submit(record, client, line): line for line in left}
        for finished in as_completed(under_way):
            text = json.dumps({"line": under_way[finished], "record": finished.result()})
            print(text, file=out, flush=True)
            progress.update()


if __name__ == "__main__":
    main()
