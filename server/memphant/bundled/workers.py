"""Two threads that embed one window of text at a time, the most urgent first.

A save of a hundred texts is a hundred pieces of work. Queries go before passages; passages of
several saves take turns. So nobody waits for another's batch, only for the piece at hand.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")

# More threads than two gained nothing when measured: the work is bound by memory and cores.
THREADS = 2


class ClosedError(RuntimeError):
    """The workers were closed before this piece of work was begun."""


@dataclass(order=True, slots=True)
class _Piece:
    urgency: int  # 0 query, 1 passage
    turn: int
    arrival: int
    work: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)


class Workers:
    """A priority queue before two daemon threads, which start with the first piece of work."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pieces: list[_Piece] = []
        self._arrivals = itertools.count()
        self._threads: list[threading.Thread] = []
        self._turn = 0
        self._closed = False

    @property
    def turn(self) -> int:
        """The turn being served; a new batch gives its pieces this turn, the next one, …

        So it starts level with the batches that are being worked on, neither before nor behind.
        """
        return self._turn

    def submit(self, work: Callable[[], Result], *, urgent: bool, turn: int = 0) -> Future[Result]:
        """Queue one piece of work. A future that is cancelled in time is never begun.

        Raises ClosedError after close().
        """
        future: Future[Result] = Future()
        piece = _Piece(0 if urgent else 1, turn, next(self._arrivals), work, future)
        with self._changed:
            if self._closed:
                raise ClosedError
            if not self._threads:
                self._start()
            heapq.heappush(self._pieces, piece)
            self._changed.notify()
        return future

    def close(self) -> None:
        """What waits fails with ClosedError; what runs is waited for, a piece's time at most."""
        with self._changed:
            self._closed = True
            waiting, self._pieces = self._pieces, []
            self._changed.notify_all()
        for piece in waiting:
            if piece.future.set_running_or_notify_cancel():
                piece.future.set_exception(ClosedError())
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        for number in range(THREADS):
            # daemon: a server that is told to stop does not finish a long import first
            name = f"memphant-embedding-{number}"
            self._threads.append(threading.Thread(target=self._serve, name=name, daemon=True))
            self._threads[-1].start()

    def _serve(self) -> None:
        while (piece := self._next()) is not None:
            if not piece.future.set_running_or_notify_cancel():
                continue
            try:
                piece.future.set_result(piece.work())
            except BaseException as error:
                piece.future.set_exception(error)
            del piece  # do not keep a text in memory while waiting for the next

    def _next(self) -> _Piece | None:
        with self._changed:
            while not self._pieces:
                if self._closed:
                    return None
                self._changed.wait()
            piece = heapq.heappop(self._pieces)
            if piece.urgency:
                self._turn = max(self._turn, piece.turn)
            return piece
