#!/usr/bin/env python3
"""Handles orders that rehop passes on by HTTP. It needs Python's standard library only.

The status of an answer decides what becomes of the message:
  2xx  the message is done
  4xx  the message goes to the failed queue at once
  5xx  the message is retried by the schedule in rehop.yaml
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

notified = set()  # ids of messages that are done; a real service keeps them in its database


class Orders(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            order = json.loads(body)
            number, email = order["number"], order["email"]
        except (ValueError, KeyError, TypeError) as problem:
            return self.answer(422, f"not an order: {problem!r}")
        # The id is the same at each attempt, so a message that arrives twice is recognized.
        message = self.headers["Webhook-Id"]
        if message not in notified:
            try:
                notify(number, email)
            except OSError as problem:
                return self.answer(503, str(problem))
            notified.add(message)
        self.answer(204)

    def answer(self, status, reason=""):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(reason.encode())

    def log_message(self, format, *args):
        print(format % args, file=sys.stderr, flush=True)


def notify(number, email):
    print(f"order {number}: notified {email}", flush=True)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    server = ThreadingHTTPServer(("127.0.0.1", port), Orders)
    print(f"listening on http://127.0.0.1:{server.server_port}/orders", flush=True)
    server.serve_forever()
