"""How the words of the conformance kit are played here: one set of options for each."""

import json
from collections.abc import Mapping

from placet.domain.allocations import Launch
from placet.domain.values import evolve

# Machines come up at once, so that trying a law takes a moment.
BRISK = {"startup_seconds": "0.05", "runtime_seconds": "0", "faulty_attempts": 1000}
LONG = {"runtime_seconds": "600"}

PLAYED: Mapping[str, Mapping[str, object]] = {
    "succeed": {},
    "exit_3": {"exit_code": 3},
    "hold": LONG,
    "talk": {"log": "one\ntwo\nthree\n"},
    "write": {},
    "missing": {"start_fails": True},
    "lost_request": {"lost_reply": "before_effect"},
    "lost_reply": {"lost_reply": "after_effect"},
    "server_error": {"lost_reply": "server_error"},
    "late_create": {"late_create_seconds": "1"},
    "empty_handle": {"empty_handle": True},
    "late_visible": {"visibility_seconds": "1"},
    "lost_page": {"lost_page_seconds": "1"},
    "rate_limited": {"rate_limited_seconds": "1"},
    "rate_limited_no_hint": {"rate_limited_seconds": "1", "wait_hint": False},
    "no_capacity": {"refuse": "capacity"},
    "no_quota": {"refuse": "quota"},
    "unknown_state": {**LONG, "unknown_state_seconds": "1"},
    "stop_refused": {**LONG, "startup_seconds": "1", "stop_refused_while_provisioning": True},
    "stop_ignored": {**LONG, "stops_ignored": 1},
    "preempted": {**LONG, "preempt_after_seconds": "0.3"},
    "host_lost": {**LONG, "host_lost_after_seconds": "0.3"},
    "restarted": {"runtime_seconds": "1", "restart_after_seconds": "0.7"},
    "log_lost": {"log_lost_bytes": 5},
    "clock_ahead": {"clock_offset_seconds": 600},
    "clock_behind": {"clock_offset_seconds": -600},
    "other_price": {**LONG, "price_factor": "1.75"},
}


def rehearsed(launch: Launch, what: str, provider: str) -> Launch | None:
    """The launch with the options that play it."""
    played = PLAYED.get(what)
    if played is None:
        return None
    stated = json.dumps({**BRISK, **played}, sort_keys=True)
    return evolve(launch, spec=evolve(launch.spec, provider_options=((provider, stated),)))
