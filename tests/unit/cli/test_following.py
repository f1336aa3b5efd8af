"""Following a workload on a terminal: an interrupt takes its turn, and what was queued is not lost by it."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from placet.cli.following import Follower
from placet.contract.logs import LogPieceView
from placet.sdk.client import Client


class Scripted:
    """Stands in for a server at the other end: one event of one attempt, then the pieces of its log."""

    def __init__(self, pieces: int) -> None:
        self.pieces = [piece(number) for number in range(pieces)]

    def events(self, _workload_id: str, **_options: Any) -> Iterator[Any]:
        yield SimpleNamespace(kind="attempt.moved", epoch=1, to_state="running", message="", at=datetime.now(UTC))

    def logs(self, _workload_id: str, **_options: Any) -> Iterator[LogPieceView]:
        yield from self.pieces


class Reading:
    """A screen on which signals arrive while a piece is being written."""

    def __init__(self, *signals_at: int) -> None:
        self.seen: list[int] = []
        self._signals_at = list(signals_at)

    def show(self, piece: LogPieceView) -> None:
        while self._signals_at and self._signals_at[0] == piece.offset:
            self._signals_at.pop(0)
            signal.raise_signal(signal.SIGINT)
        self.seen.append(piece.offset)


def piece(number: int) -> LogPieceView:
    return LogPieceView(epoch=1, stream="stdout", offset=number, next_offset=number + 1, text=".")


def follower(screen: Reading, pieces: int) -> Follower:
    return Follower(cast("Client", Scripted(pieces)), "wl_1", screen=screen, quiet=True)


def test_an_interrupt_takes_its_turn_and_nothing_is_lost() -> None:
    screen = Reading(3, 500)
    following = follower(screen, 1_000)
    interrupts = 0
    while True:
        try:
            following.follow()
            break
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts == 2
    assert screen.seen == list(range(1_000))


def test_a_second_interrupt_does_not_wait() -> None:
    screen = Reading(3, 3)
    with pytest.raises(KeyboardInterrupt):
        follower(screen, 10).follow()
    assert screen.seen == [0, 1, 2], "thrown in the middle of the write it found us stuck in"


def test_what_is_not_handled_here_stays_as_it_is() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    follower(Reading(), 1).follow()
    assert {number: signal.getsignal(number) for number in before} == before
