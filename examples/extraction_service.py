"""An extraction service: text in, a record out that obeys the schema. Whatever the model says.

    python examples/extraction_service.py --port 8080
    curl 127.0.0.1:8080 -d 'Wandering Tide plays in Cork on March 24, 2001; 8082 seats were sold.'

The answer needs no check and no second try, so none is here.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openai import APIError, OpenAI

CONCERT = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 60},
        "date": {"type": "string", "format": "date"},
        "seats": {"type": "integer", "minimum": 0, "maximum": 99999},
    },
    "required": ["title", "date", "seats"],
    "additionalProperties": False,
}
PROMPT = "Extract the concert as JSON with keys title, date, seats: {text}"
LONGEST_TEXT = 2000


def extract(client: OpenAI, text: str) -> dict:
    """The concert that ``text`` tells of."""
    answer = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": PROMPT.format(text=text)}],
        temperature=0,
        max_tokens=160,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "concert", "schema": CONCERT, "strict": True},
        },
    )
    return json.loads(answer.choices[0].message.content)


class Service(BaseHTTPRequestHandler):
    client: OpenAI

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if not 0 < length <= LONGEST_TEXT:
            return self.reply(400, {"error": f"send a text of 1 to {LONGEST_TEXT} bytes"})
        try:
            self.reply(200, extract(self.client, self.rfile.read(length).decode(errors="replace")))
        except APIError as error:
            self.reply(502, {"error": str(error)})

    def reply(self, status: int, content: dict) -> None:
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description="An extraction service.")
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the SGLang server")
    parser.add_argument("--port", type=int, default=8080, help="on 127.0.0.1; 0 takes a free one")
    arguments = parser.parse_args()
    Service.client = OpenAI(base_url=f"{arguments.url}/v1", api_key="none", timeout=60)
    with ThreadingHTTPServer(("127.0.0.1", arguments.port), Service) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
