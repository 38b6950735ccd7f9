"""Several runs of the same work that go on in step: each stops where it hands something over, until it is answered.

Enters: functions of one argument, ``park``. Leaves: what each hands to ``park``, one after the other, to whoever
``advance``s them with the answer.

One forward pass for each mini-batch can so stop at every layer until all of them are there. Each strand has a thread of
its own for its stack, and only one of them ever runs: whoever advances a strand waits until it stops again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["Strand"]


class _Abandoned(BaseException):
    """Raised inside a strand that nobody will advance any more."""


class Strand:
    """Work that stops at each ``park``.

    Args:
        work: Called with ``park``, a function that hands its argument over and returns the answer.

    >>> strand = Strand(lambda park: park(park(1) + 1))
    >>> strand.advance(), strand.advance(10), strand.advance(0), strand.done
    (1, 11, None, True)
    """

    def __init__(self, work: Callable[[Callable[[Any], Any]], object]) -> None:
        self.done = False
        self._work = work
        self._goes, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._handed: Any = None
        self._error: BaseException | None = None
        self._abandoned = False
        self._grad = torch.is_grad_enabled()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def advance(self, answer: Any = None) -> Any:
        """Go on with the answer; what is handed over next, or ``None`` at the end. Errors inside are raised here."""
        self._handed = answer
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._goes.release()
        self._stands.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        handed, self._handed = self._handed, None
        return handed

    def abandon(self) -> None:
        """Unwind the work where it stands."""
        if self._thread.ident is not None and not self.done:
            self._abandoned = True
            self._goes.release()
        if self._thread.ident is not None:
            self._thread.join()

    def _park(self, handed: Any) -> Any:
        self._handed = handed
        self._stands.release()
        self._goes.acquire()
        if self._abandoned:
            raise _Abandoned
        answer, self._handed = self._handed, None
        return answer

    def _run(self) -> None:
        try:
            with torch.set_grad_enabled(self._grad):  # a thread of its own has a grad mode of its own
                self._work(self._park)
        except _Abandoned:
            pass
        except BaseException as error:  # it is raised where the strand is advanced
            self._error = error
        self._handed, self.done = None, True
        self._stands.release()
