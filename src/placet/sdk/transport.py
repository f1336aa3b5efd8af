"""The blocking driver: sends the core's requests with httpx, repeats what may be repeated, follows streams."""

import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import httpx

from placet.sdk.errors import Unreachable, WaitTimeout
from placet.sdk.location import Location
from placet.sdk.sse import EventParser, ServerEvent, StreamTooLarge
from placet.sdk.wire import (
    STREAM_END,
    STREAM_REFUSED,
    Call,
    Reply,
    Request,
    headers_for,
    pause_s,
    refusal,
    resumed,
    should_repeat,
    stream_refusal,
)

T = TypeVar("T")

CONNECT_S = 5.0
TIMEOUT = httpx.Timeout(60.0, connect=CONNECT_S)
# Heartbeats come every few seconds; silence for this long means that the connection is dead.
SILENCE_S = 30.0
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """One server. ``revive`` is called when it cannot be connected to, and may start it again."""

    def __init__(self, location: Location, revive: Callable[[], None] | None = None) -> None:
        self._location = location
        self._revive = revive
        transport = httpx.HTTPTransport(uds=str(location.socket)) if location.socket else None
        self._http = httpx.Client(base_url=location.url, transport=transport, timeout=TIMEOUT, follow_redirects=False)

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """The result of a call.

        Raises:
            Unreachable: no server answered.
            ApiError: the server refused.
        """
        tries = 0
        while True:
            tries += 1
            reply, fault = self._once(call.request)
            sent = not isinstance(fault, NOT_SENT)
            if not should_repeat(call.request, tries, reply, sent=sent):
                break
            if not sent and self._revive is not None:
                self._revive()
            time.sleep(pause_s(tries, reply))
        if reply is None:
            raise Unreachable(f"no answer from {self._place()}: {fault}") from fault
        return call.result(reply)

    def follow(self, request: Request, *, within_s: float | None = None) -> Iterator[ServerEvent]:
        """The events of a stream to its end, over as many connections as it takes; none is lost or given twice.

        Raises:
            WaitTimeout: the stream did not end within the time.
        """
        deadline_s = math.inf if within_s is None else time.monotonic() + within_s
        last: str | None = None
        failures = 0
        while True:
            try:
                for event in self._events(resumed(request, last), deadline_s):
                    if event.kind == STREAM_END:
                        return
                    if event.kind == STREAM_REFUSED:
                        raise stream_refusal(event.data)
                    last, failures = event.id or last, 0
                    yield event
                fault: Exception | None = None
            except (httpx.TransportError, StreamTooLarge) as error:
                fault = error
            if time.monotonic() >= deadline_s:
                raise WaitTimeout("the workload has not finished within the time; it goes on")
            failures += 1
            if not should_repeat(request, failures, None, sent=True):
                raise Unreachable(f"the stream from {self._place()} broke: {fault}") from fault
            if isinstance(fault, NOT_SENT) and self._revive is not None:
                self._revive()
            time.sleep(pause_s(failures, None))

    def pieces(self, request: Request) -> Iterator[bytes]:
        """A body in pieces, for what may be large; a broken connection is for the caller to resume."""
        with self._http.stream(
            request.method, request.path, params=request.query, headers=headers_for(request, self._location.token)
        ) as response:
            self._refuse(response)
            yield from response.iter_raw()

    def _events(self, request: Request, deadline_s: float) -> Iterator[ServerEvent]:
        """Ends early, with the connection, once the time is over."""
        parser = EventParser()
        silence_s = max(0.001, min(SILENCE_S, deadline_s - time.monotonic()))
        with self._http.stream(
            request.method,
            request.path,
            params=request.query,
            headers=headers_for(request, self._location.token),
            timeout=httpx.Timeout(silence_s, connect=CONNECT_S),
        ) as response:
            self._refuse(response)
            for piece in response.iter_raw():
                yield from parser.feed(piece)
                if time.monotonic() >= deadline_s:
                    return

    def _once(self, request: Request) -> tuple[Reply | None, Exception | None]:
        try:
            response = self._http.request(
                request.method,
                request.path,
                params=request.query,
                headers=headers_for(request, self._location.token),
                content=request.body,
            )
        except httpx.TransportError as error:
            return None, error
        return Reply(status=response.status_code, headers=response.headers, body=response.content), None

    def _refuse(self, response: httpx.Response) -> None:
        if response.status_code >= 400:
            body = response.read()
            raise refusal(Reply(status=response.status_code, headers=response.headers, body=body))

    def _place(self) -> str:
        return str(self._location.socket or self._location.url)
