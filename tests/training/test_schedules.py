from __future__ import annotations

import numpy as np
import pytest

from firstlight.errors import UsageError
from firstlight.training import at, every, log_spaced
from firstlight.training.schedules import schedule_named


def test_the_papers_schedule():
    assert log_spaced(3200).upto(3200) == [*range(8), 9, 23, 63, 169, 451, 1202, 3199]


@pytest.mark.parametrize("total", [1, 2, 7, 8, 9, 10, 31, 1000])
def test_a_run_of_any_length_ends_with_its_last_update(total):
    steps = log_spaced(total).upto(total)
    assert steps[0] == 0
    assert steps[-1] == total - 1
    assert len(steps) == len(set(steps)) <= 15


def test_without_an_end_the_logarithms_lie_evenly():
    steps = np.array(log_spaced().upto(100_000))
    late = steps[steps > 100]
    assert np.diff(np.log10(late)) == pytest.approx(np.log10(1.25), abs=0.01)


def test_an_endless_schedule_may_be_asked_in_any_order():
    schedule = log_spaced()
    assert schedule(1000) is log_spaced()(1000)
    assert schedule.upto(50) == log_spaced().upto(50)


def test_what_users_pass():
    assert schedule_named(5).upto(11) == [0, 5, 10]
    assert schedule_named([3, 1]).upto(9) == [1, 3]
    assert schedule_named(lambda step: step == 4).upto(9) == [4]
    assert schedule_named(every(2)).upto(3) == [0, 2]
    assert schedule_named(None, 3200).upto(3200) == log_spaced(3200).upto(3200)


@pytest.mark.parametrize("wrong", [lambda: every(0), lambda: at([]), lambda: at([-1]), lambda: log_spaced(0)])
def test_misuse_is_told(wrong):
    with pytest.raises(UsageError, match="expected"):
        wrong()


def test_a_word_is_no_schedule():
    with pytest.raises(UsageError, match="expected a number, steps or a function of the step, got 'often'"):
        schedule_named("often")
