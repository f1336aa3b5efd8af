"""The laws of a provider in bad weather; each is tried where the adapter can be made to meet the fault."""

from decimal import Decimal

from placet.domain.allocations import Handle, Observation, Phase, PriceEcho
from placet.domain.errors import NoCapacity, OutcomeUnknown, ProviderError, QuotaExceeded, RateLimited, Unavailable
from placet.domain.failures import Cause
from placet.ports.provider import Provider
from placet.testing.conformance.provider_bench import END_LIMIT_S, Fault, ended, in_phase, observe, read, released
from placet.testing.conformance.provider_law import DECLARED, Law, NotApplicable, Trial, law, must
from placet.testing.conformance.provider_laws import refused
from placet.testing.conformance.waiting import eventually

# How far a time of the provider may be from ours: a call takes a moment.
TIMELY_MS = 2000
# Longer than a bound of the card by this much, as looks come in turns.
GRACE_S = 2.0


@law("where the request was lost, nothing is there and nothing comes")
async def a_lost_request_leaves_nothing(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.LOST_REQUEST, "f-request"), trial.provider
    await _unknown(provider, trial, Fault.LOST_REQUEST, "f-request")
    must(list(await provider.find(launch.key)) == [], "nothing is found")
    await trial.started("f-request", 0)


@law("where the reply was lost, the thing is found, and a second submit makes no second one")
async def a_lost_reply_is_found_out(trial: Trial) -> None:
    await _found_once(trial, Fault.LOST_REPLY, "f-reply")


@law("a server error after the effect is not taken for a refusal")
async def a_server_error_after_the_effect(trial: Trial) -> None:
    await _found_once(trial, Fault.SERVER_ERROR, "f-error")


@law("a reply that names nothing is no handle")
async def an_empty_handle_is_none(trial: Trial) -> None:
    await _found_once(trial, Fault.EMPTY_HANDLE, "f-empty")


@law("a create that lands late does so within the time on the card, and once")
async def a_late_create_lands_within_the_card(trial: Trial) -> None:
    await _found_once(trial, Fault.LATE_CREATE, "f-late")


@law("what is not visible yet is not taken for ended, and is seen within the time on the card")
async def early_absence_is_no_end(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.LATE_VISIBLE, "f-visible"), trial.provider
    handle = await provider.submit(launch)
    seen = await observe(provider, handle)
    must(seen.phase is not Phase.ENDED or seen.computed, f"it has just been made: {seen}")
    must(list(await provider.find(launch.key)) == [], "the fault is there: it is not listed at first")
    await _visible(provider, launch.key)
    must((await ended(provider, handle)).computed, "and it runs")


@law("a list with a missing page is an error, and no shorter list")
async def a_lost_page_is_an_error(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.LOST_PAGE, "f-page"), trial.provider
    handle = await provider.submit(launch)
    refused = 0

    async def complete() -> bool:
        nonlocal refused
        try:
            mine = [each.native_id async for each in provider.owned(launch.tag.deployment)]
        except Unavailable:
            refused += 1
            return False
        must(handle.native_id in mine, "a list that is given is complete")
        return True

    await eventually(complete, END_LIMIT_S, "a complete list")
    must(refused, "the fault is there: the list was not complete at first")


@law("too many requests are told as that, with the time to wait")
async def too_many_requests_with_a_hint(trial: Trial) -> None:
    await _slowed_down(trial, Fault.RATE_LIMITED, "f-429", hint=True)


@law("too many requests are told as that where no time is given either")
async def too_many_requests_without_a_hint(trial: Trial) -> None:
    await _slowed_down(trial, Fault.RATE_LIMITED_NO_HINT, "f-429-bare", hint=False)


@law("no capacity is told as no capacity", launches=0)
async def no_capacity_is_told_as_such(trial: Trial) -> None:
    await _refusal(trial, Fault.NO_CAPACITY, "f-capacity", NoCapacity)


@law("no quota is told as no quota", launches=0)
async def no_quota_is_told_as_such(trial: Trial) -> None:
    await _refusal(trial, Fault.NO_QUOTA, "f-quota", QuotaExceeded)


@law("a state that nobody knows is unknown, and no end")
async def an_unknown_state_is_unknown(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.UNKNOWN_STATE, "f-state"), trial.provider
    handle = await provider.submit(launch)
    seen = await _in(provider, handle, Phase.UNKNOWN)
    must(seen.native_state, "its own word is kept")
    must(provider.card.phase(seen.native_state) is Phase.UNKNOWN, "and it is not on the card")
    await in_phase(provider, handle, Phase.RUNNING)


@law("a stop that is refused is told as refused, in a phase that the card names, and works later")
async def a_refused_stop_is_told(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.STOP_REFUSED, "f-refused"), trial.provider
    must(provider.card.stopping.refused_in, "the card names the phases in which a stop is refused")
    handle = await provider.submit(launch)
    try:
        await provider.cancel(handle, 0.0)
    except ProviderError:
        seen = await observe(provider, handle)
        must(seen.phase is not Phase.ENDED, "a refused stop ends nothing")
    else:
        raise AssertionError("the fault is there: the first stop is refused")
    await in_phase(provider, handle, Phase.RUNNING)
    await provider.cancel(handle, 0.0)
    must((await ended(provider, handle)).cause is Cause.STOPPED, "later it works")


@law("a stop that is taken and ignored is not believed")
async def an_ignored_stop_is_not_believed(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.STOP_IGNORED, "f-ignored"), trial.provider
    handle = await provider.submit(launch)
    await in_phase(provider, handle, Phase.RUNNING)
    await provider.cancel(handle, 0.0)
    must((await observe(provider, handle)).phase is Phase.RUNNING, "what still runs is said to run")
    await trial.alive("f-ignored", True)

    async def over() -> bool:
        await provider.cancel(handle, 0.0)
        return (await observe(provider, handle)).phase is Phase.ENDED

    await eventually(over, END_LIMIT_S, "a stop that is heard")


@law("what was taken away is told as that, without an exit code")
async def a_preemption_is_told(trial: Trial) -> None:
    handle = await trial.provider.submit(trial.faulty(Fault.PREEMPTED, "f-preempted"))
    last = await ended(trial.provider, handle)
    must(last.cause is Cause.PREEMPTED, f"the cause is preempted and not {last.cause}")
    must(last.exit_code is None and not last.computed, "no exit code is made up")


@law("what is gone without a trace is gone, and neither a success nor a failure")
async def a_lost_host_is_gone(trial: Trial) -> None:
    provider = trial.provider
    handle = await provider.submit(trial.faulty(Fault.HOST_LOST, "f-host"))
    seen = await _in(provider, handle, Phase.GONE)
    must(seen.cause is None and seen.exit_code is None and not seen.computed, f"nothing is known of its end: {seen}")
    await released(provider, handle)


@law("what the provider begins again by itself is told apart, and asks for its permit again")
async def a_restart_is_told_apart(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.RESTARTED, "f-again"), trial.provider
    handle = await provider.submit(launch)
    first = await in_phase(provider, handle, Phase.RUNNING)
    last = await ended(provider, handle)
    must(first.incarnation != last.incarnation, "the second run has an incarnation of its own")
    if provider.card.fence:
        asked = [request for request in trial.listener.asked if request.key == launch.key]
        must(len(asked) > 1, "it asks for a permit for each run")


@law("lost bytes of a log are counted, and marked where they are missing")
async def lost_log_bytes_are_marked(trial: Trial) -> None:
    provider = trial.provider
    handle = await provider.submit(trial.faulty(Fault.LOG_LOST, "f-log"))
    last = await ended(provider, handle)
    seal = next(seal for seal in last.logs if seal.stream == provider.card.log_streams[0])
    must(seal.bytes_kept < seal.bytes_total and seal.gaps, f"the seal tells what is missing: {seal}")
    chunks = await read(provider, handle, seal.stream, 0)
    kept, lost = sum(len(chunk.data) for chunk in chunks), sum(chunk.dropped for chunk in chunks)
    must((kept, kept + lost) == (seal.bytes_kept, seal.bytes_total), "and so does the log itself")


@law("a clock that is ahead does not show in the times")
async def a_clock_that_is_ahead(trial: Trial) -> None:
    await _timely(trial, Fault.CLOCK_AHEAD, "f-ahead")


@law("a clock that is behind does not show in the times")
async def a_clock_that_is_behind(trial: Trial) -> None:
    await _timely(trial, Fault.CLOCK_BEHIND, "f-behind")


@law("a price that is not the listed one is told")
async def another_price_is_told(trial: Trial) -> None:
    launch, provider = trial.faulty(Fault.OTHER_PRICE, "f-price"), trial.provider
    if provider.card.price_echo is PriceEcho.NOWHERE:
        raise NotApplicable("this provider does not say what a thing costs")
    handle = await provider.submit(launch)
    if provider.card.price_echo is PriceEcho.READ_BACK:
        [handle] = await provider.find(launch.key)
    told = handle.price_usd_per_hour
    must(told is not None and told != launch.offer.price_usd_per_hour, f"the price is told, and it is another: {told}")
    must(told is None or told > Decimal(0), "and it is one")


async def _unknown(provider: Provider, trial: Trial, fault: Fault, name: str) -> None:
    """A submit under this fault leaves open what it did."""
    try:
        handle = await provider.submit(trial.faulty(fault, name))
    except OutcomeUnknown:
        return
    except ProviderError as error:
        raise AssertionError(f"it is told as {type(error).__name__}, as if that were sure: {error}") from error
    raise AssertionError(f"it is told as a success: {handle}")


async def _found_once(trial: Trial, fault: Fault, name: str) -> None:
    launch, provider = trial.faulty(fault, name), trial.provider
    await _unknown(provider, trial, fault, name)
    handle = await _visible(provider, launch.key)
    must(handle.native_id, "what is found has a name")
    try:
        again = await provider.submit(launch)
        must(again.native_id == handle.native_id, "a second submit answers with what is there")
    except OutcomeUnknown:
        pass  # the fault may still be there; what counts is that it made nothing
    must((await ended(provider, handle)).computed, "what was made runs")
    must(len(await provider.find(launch.key)) == 1, "there is one")
    await trial.started(name, 1)


async def _visible(provider: Provider, key: str) -> Handle:
    """Find it within the times that the card promises."""
    card = provider.card
    limit_s = END_LIMIT_S if card.late_create_s is None else card.late_create_s + card.visibility_s + GRACE_S

    async def look() -> Handle | None:
        found = await provider.find(key)
        must(len(found) <= 1, f"at most one is found, and not {len(found)}")
        return found[0] if found else None

    return await eventually(look, limit_s, f"sign of {key} within D and V of the card")


async def _slowed_down(trial: Trial, fault: Fault, name: str, *, hint: bool) -> None:
    launch, provider = trial.faulty(fault, name), trial.provider
    try:
        await provider.submit(launch)
    except RateLimited as error:
        told = error.retry_after_s
        must((told is not None and told > 0) if hint else told is None, f"the hint is passed on as it is: {told}")
    else:
        raise AssertionError("the fault is there: the first call is refused")
    must(list(await provider.find(launch.key)) == [], "nothing was made")

    async def taken() -> Handle | None:
        try:
            return await provider.submit(launch)
        except RateLimited:
            return None

    handle = await eventually(taken, END_LIMIT_S, "a submit that is taken")
    must((await ended(provider, handle)).computed, "later it runs")


async def _refusal(trial: Trial, fault: Fault, name: str, kind: type[ProviderError]) -> None:
    launch, provider = trial.faulty(fault, name), trial.provider
    await refused(provider.submit(launch), "the submit", kind)
    must(list(await provider.find(launch.key)) == [], "nothing was made")


async def _timely(trial: Trial, fault: Fault, name: str) -> None:
    launch, provider = trial.faulty(fault, name), trial.provider
    handle = await provider.submit(launch)
    last = await ended(provider, handle)
    now_ms = last.observed_ms
    for what, at_ms in (("created", last.created_ms), ("started", last.started_ms), ("ended", last.ended_ms)):
        must(at_ms is not None, f"it says when it {what}")
        off_ms = abs(now_ms - (at_ms or 0))
        must(off_ms <= END_LIMIT_S * 1000 + TIMELY_MS, f"it {what} {off_ms} ms from now, by its clock and not by ours")
    order = [last.created_ms or 0, last.started_ms or 0, last.ended_ms or 0]
    must(order == sorted(order), f"one after the other: {order}")


async def _in(provider: Provider, handle: Handle, phase: Phase) -> Observation:
    async def look() -> Observation | None:
        seen = await observe(provider, handle)
        must(seen.phase is not Phase.ENDED, f"nobody knows that it ended, and it is said to have: {seen.cause}")
        return seen if seen.phase is phase else None

    return await eventually(look, END_LIMIT_S, f"{handle.key} in phase {phase}")


# Loading this module has declared those in good weather too.
LAWS: tuple[Law, ...] = tuple(DECLARED)
