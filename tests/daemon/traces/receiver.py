"""An OTLP receiver over HTTP: it prints its address, then each span as a line of JSON.

python -m tests.daemon.traces.receiver
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Handler(BaseHTTPRequestHandler):
    """Handler of one export."""

    def do_POST(self) -> None:
        """Print the spans of a request, and accept them."""
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in request.resource_spans:
            about = values(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    print(json.dumps(document(span, about)), flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        """Log nothing."""


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def document(span: Any, resource: dict[str, Any]) -> dict[str, Any]:
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "name": span.name,
        "since": span.start_time_unix_nano,
        "until": span.end_time_unix_nano,
        "error": span.status.message if span.status.code == 2 else "",
        "attributes": values(span.attributes),
        "resource": resource,
    }


def main() -> None:
    """Serve until the standard input ends."""
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
