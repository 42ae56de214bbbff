"""What tests of attacks conclude from what they measure: a node that stands still shows, a busy machine does not."""

from __future__ import annotations

from tests.faults.attacks.honest import INTERVAL_S, Window, percentile, with_those_that_waited
from tests.faults.attacks.siege import TIMES_SLOWER, Round, times_slower


def p99_ms(times_ms: list[float]) -> float:
    return 1000 * percentile(sorted(with_those_that_waited([time_ms / 1000 for time_ms in times_ms])), 0.99)


def test_a_node_that_stood_still_once_shows_in_the_slowest_hundredth() -> None:
    """One request in five hundred has met it. Those that were due meanwhile would have, too."""
    assert p99_ms([0.3] * 499 + [1000]) > 900


def test_a_request_that_is_a_little_late_counts_for_itself_alone() -> None:
    assert len(with_those_that_waited([1.9 * INTERVAL_S] * 10)) == 10
    assert p99_ms([0.3] * 499 + [7]) == 0.3


def rounds_of(*figures: tuple[float, float]) -> list[Round]:
    def window(p99: float) -> Window:
        return Window(500, 0.3, p99, p99, [], 0, 0)

    return [Round(window(quiet), window(attacked), []) for quiet, attacked in figures]


def test_one_round_is_enough_if_nobody_noticed_the_attack() -> None:
    assert times_slower(rounds_of((0.9, 15))) <= TIMES_SLOWER


def test_a_disturbed_quiet_stretch_lets_no_slow_node_pass() -> None:
    assert times_slower(rounds_of((50, 300))) > TIMES_SLOWER
    assert times_slower(rounds_of((50, 300), (1, 300))) > TIMES_SLOWER
    assert times_slower(rounds_of((1, 300), (50, 310), (1, 290))) > TIMES_SLOWER


def test_disturbed_stretches_under_attack_blame_no_node() -> None:
    assert times_slower(rounds_of((1, 300), (1, 40), (1, 12))) <= TIMES_SLOWER


def test_a_machine_that_is_always_busy_is_the_measure_of_itself() -> None:
    assert times_slower(rounds_of((9, 60), (12, 70), (10, 85))) <= TIMES_SLOWER
