"""HTTP/1.1 on one connection: uvicorn's, with a bound on what a client may send before it says something new."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Beyond what one read from the socket brings, which asyncio bounds by itself.
UNFINISHED_MAX = 16 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """The parser keeps every head, and every trailer behind a body, however long they get; nobody needs long ones."""

    _moved = False
    _unfinished_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._moved = False
        super().data_received(data)
        self._unfinished_bytes = 0 if self._moved else self._unfinished_bytes + len(data)
        if self._unfinished_bytes > UNFINISHED_MAX and not self.transport.is_closing():
            self.send_400_response("The head of a request, or its trailer, is too long.")

    def on_message_begin(self) -> None:
        self._moved = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._moved = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._moved = True
        super().on_message_complete()
