"""The laws of a provider in good weather: one key one thing, truth after a cut, stops, words, logs, offers, limits."""

import asyncio
import hashlib
from collections.abc import Awaitable

from placet.domain.allocations import Handle, PermitRequest, Phase
from placet.domain.errors import InvalidRequest, NoCapacity, OutcomeUnknown, ProviderError, QuotaExceeded, Unavailable
from placet.domain.failures import MEANINGS, Cause
from placet.domain.offers import Trust
from placet.domain.values import evolve
from placet.testing.conformance.provider_bench import (
    CALL_LIMIT_S,
    END_LIMIT_S,
    Behaviour,
    Listener,
    ended,
    essence,
    free_slots,
    in_phase,
    observe,
    output,
    read,
    released,
)
from placet.testing.conformance.provider_law import NotApplicable, Trial, law, must
from placet.testing.conformance.waiting import eventually

# 1. One key, one thing.


@law("submitting twice with one key gives one thing")
async def one_key_one_thing(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.SUCCEED, "1"), trial.provider
    first, second = await asyncio.gather(provider.submit(launch), provider.submit(launch))
    must(first.key == second.key and first.native_id == second.native_id, "two handles of one thing are equal")
    await ended(provider, first)
    third = await provider.submit(launch)
    must(third.native_id == first.native_id, "a third submit finds the same thing")
    await trial.started("1", 1)
    must(len(await provider.find(launch.key)) == 1, "the key is found once")


@law("a released key never starts again")
async def a_released_key_never_starts_again(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.SUCCEED, "1-released"), trial.provider
    handle = await provider.submit(launch)
    await ended(provider, handle)
    await released(provider, handle)
    await refused(provider.submit(launch), "a submit of a released key")
    await trial.started("1-released", 1)


@law("a name that something else bears is refused, and what bears it is left alone")
async def a_name_of_another_is_refused(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.HOLD, "1-name"), trial.provider
    if not provider.card.naming.checks_parameters:
        raise NotApplicable("this provider does not tell requests of one name apart")
    handle = await provider.submit(launch)
    other = evolve(launch, tag=evolve(launch.tag, nonce=f"{launch.tag.nonce}-other"))
    await refused(provider.submit(other), "a submit under a name that bears another nonce")
    must([each.native_id for each in await provider.find(launch.key)] == [handle.native_id], "the first is there")
    must((await observe(provider, handle)).phase is not Phase.ENDED, "the first lives")


# 2. After a cut, find tells the truth.


@law("after a cut connection, find tells the truth")
async def find_tells_the_truth_after_a_cut(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.SUCCEED, "2"), trial.provider
    sending = asyncio.ensure_future(provider.submit(launch))
    await asyncio.wait([sending], timeout=0)
    await trial.bench.cut(provider)
    outcome: Handle | None = None
    try:
        outcome = await asyncio.wait_for(sending, CALL_LIMIT_S)
    except OutcomeUnknown:
        pass
    except Unavailable:
        # Surely not carried out, says the error: then it must not be there.
        async with trial.other(grants=None) as (again, _):
            must(list(await again.find(launch.key)) == [], "what was surely not carried out is not there")
        return
    async with trial.other() as (again, _):
        found = await again.find(launch.key)
        must(len(found) <= 1, "at most one is found")
        if outcome is not None:
            must([each.native_id for each in found] == [outcome.native_id], "what was answered is found")
        await ended(again, await again.submit(launch))
        await trial.started("2", 1)


@law("a key that never was is not found", launches=0)
async def a_key_that_never_was_is_not_found(trial: Trial) -> None:
    must(list(await trial.provider.find(trial.key("2-never"))) == [], "nothing is found")


# 3. Stopping what is stopped, gone or never started succeeds.


@law("a stop may be repeated, before, at and after the end, and after the release")
async def a_stop_may_be_repeated(trial: Trial) -> None:
    provider = trial.provider
    handle = await provider.submit(trial.launch(Behaviour.HOLD, "3"))
    await in_phase(provider, handle, Phase.RUNNING)
    await provider.cancel(handle, 0.5)
    await provider.cancel(handle, 0.5)
    last = await ended(provider, handle)
    must(last.cause is Cause.STOPPED and not last.computed, f"it was stopped, and is said to be {last.cause}")
    await provider.cancel(handle, 0.5)
    must((await observe(provider, handle)).cause is Cause.STOPPED, "it stays stopped")
    await released(provider, handle)
    await provider.cancel(handle, 0.5)


@law("a stop of what never started succeeds and keeps it from starting")
async def a_stop_of_what_never_started(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.SUCCEED, "3-never"), trial.provider
    await provider.cancel(trial.never("3-never"), 0.0)
    await refused(provider.submit(launch), "a submit of what was stopped before")
    await trial.started("3-never", 0)


@law("a stop right after the submit ends it, or is refused as the card says, and then ends it")
async def a_stop_right_after_the_submit(trial: Trial) -> None:
    async with trial.alone(grants=None) as (provider, _):
        handle = await provider.submit(trial.launch(Behaviour.HOLD, "3-early"))

        async def stopped() -> bool:
            try:
                await provider.cancel(handle, 0.0)
            except ProviderError:
                must(provider.card.stopping.refused_in, "a stop is refused, and the card does not say so")
                return False
            return True

        await eventually(stopped, END_LIMIT_S, "a stop that is taken")
        last = await ended(provider, handle)
        must(not last.computed and last.exit_code is None, "what was stopped at the start did not succeed")
        if provider.card.fence:
            await trial.started("3-early", 0)


# 4. Only our words.


@law("what is observed is told in our words, in the order asked for", launches=2)
async def observations_are_in_our_words(trial: Trial) -> None:
    provider = trial.provider
    well = await provider.submit(trial.launch(Behaviour.SUCCEED, "4-well"))
    badly = await provider.submit(trial.launch(Behaviour.EXIT_3, "4-badly"))
    await ended(provider, well)
    await ended(provider, badly)
    first, second, third = await provider.observe([well, badly, trial.never("4-never")])
    keys = [trial.key(name) for name in ("4-well", "4-badly", "4-never")]
    must([first.key, second.key, third.key] == keys, "one observation for each handle, in order")
    must(first.computed and first.cause is None and first.collected, f"a success is told as one: {first}")
    must(not second.computed and second.cause is not None, f"a failure is told as one: {second}")
    if provider.card.exit_code:
        must(first.exit_code == 0 and second.exit_code == 3, "exit codes are told")
        must(second.cause is Cause.EXIT_CODE, f"exit code 3 is the cause and not {second.cause}")
    must(third.phase is Phase.GONE and third.cause is None and not third.computed, f"what never was is gone: {third}")
    for seen in (first, second):
        must(seen.started_ms is not None and seen.ended_ms is not None, "start and end are told")
        must(seen.incarnation, "what ran is told apart from what may run again")


@law("a program that cannot begin is no program that failed")
async def a_program_that_cannot_begin(trial: Trial) -> None:
    handle = await trial.provider.submit(trial.launch(Behaviour.MISSING, "4-missing"))
    last = await ended(trial.provider, handle)
    must(last.cause is Cause.START_FAILED, f"the cause is start_failed and not {last.cause}")
    must(last.exit_code is None and last.started_ms is None, "nothing began, so nothing has an exit code")


@law("a refused permit means that nothing ran")
async def a_refused_permit_means_that_nothing_ran(trial: Trial) -> None:
    trial.needs_fence()
    async with trial.alone(grants=False) as (provider, _):
        last = await ended(provider, await provider.submit(trial.launch(Behaviour.SUCCEED, "4-fence")))
        must(last.cause is Cause.STALE_PERMIT and last.started_ms is None, f"nothing ran: {last}")
        await trial.started("4-fence", 0)


@law("a permit that nobody answers is asked for again")
async def a_permit_that_nobody_answers_is_asked_for_again(trial: Trial) -> None:
    trial.needs_fence()
    launch = trial.launch(Behaviour.SUCCEED, "4-silence")
    async with trial.alone(grants=None) as (silent, _):
        handle = await silent.submit(launch)
        await in_phase(silent, handle, Phase.AWAITING_PERMIT)
    await trial.started("4-silence", 0)
    async with trial.other() as (again, listener):

        async def asked() -> bool:
            for request in _of(listener, launch.key):
                await again.answer_permit(request, True, "")
            return bool(_of(listener, launch.key))

        await eventually(asked, END_LIMIT_S, "second question")
        must(_of(listener, launch.key)[0].tag == launch.tag, "it asks with its own tag")
        must((await ended(again, handle)).computed, "then it runs")


# 5. A final observation never changes.


@law("a final observation never changes")
async def a_final_observation_stays(trial: Trial) -> None:
    provider = trial.provider
    handle = await provider.submit(trial.launch(Behaviour.EXIT_3, "5"))
    first = await ended(provider, handle)
    await provider.cancel(handle, 0.0)
    second = await observe(provider, handle)
    async with trial.other(grants=None) as (other, _):
        third = await observe(other, handle)
    must(essence(first) == essence(second) == essence(third), f"the same from all: {first} {second} {third}")


# 6. Logs neither lose nor repeat.


@law("logs from any offset neither lose nor repeat")
async def logs_neither_lose_nor_repeat(trial: Trial) -> None:
    provider, talk = trial.provider, trial.bench.talk
    handle = await provider.submit(trial.launch(Behaviour.TALK, "6"))
    last = await ended(provider, handle)
    stream = provider.card.log_streams[0]
    seal = next((seal for seal in last.logs if seal.stream == stream), None)
    must(seal is not None and seal.bytes_total == seal.bytes_kept == len(talk), f"the seal counts all: {seal}")
    for offset in range(len(talk) + 1) if provider.card.logs.offsets else (0,):
        chunks = await read(provider, handle, stream, offset)
        must(b"".join(chunk.data for chunk in chunks) == talk[offset:], f"all that follows offset {offset}")
        must(chunks[-1].final and sum(chunk.final for chunk in chunks) == 1, "the last piece is marked, and no other")
        position = offset
        for chunk in chunks:
            must(chunk.offset == position and chunk.dropped == 0, "pieces follow one another")
            position += len(chunk.data)


@law("logs of what is not there are empty", launches=0)
async def logs_of_what_is_not_there(trial: Trial) -> None:
    stream = trial.provider.card.log_streams[0]
    must(await read(trial.provider, trial.never("6-never"), stream, 0) == [], "nothing is told")


@law("what was collected is read from any offset, and is what was announced")
async def outputs_are_what_was_announced(trial: Trial) -> None:
    provider = trial.provider
    handle = await provider.submit(trial.launch(Behaviour.WRITE, "6-outputs"))
    last = await ended(provider, handle)
    must(last.computed and last.collected and last.outputs, f"the output was collected: {last}")
    for found in last.outputs:
        whole = await output(provider, handle, found, 0)
        must(len(whole) == found.size_bytes > 0, f"{found.path} has the size that was announced")
        must(hashlib.sha256(whole).hexdigest() == found.sha256, f"{found.path} has the digest that was announced")
        for offset in {1, found.size_bytes - 1, found.size_bytes}:
            rest = await output(provider, handle, found, offset)
            must(rest == whole[offset:], f"{found.path} is read from offset {offset}")
    await released(provider, handle)
    try:
        await output(provider, handle, last.outputs[0], 0)
    except FileNotFoundError:
        return
    raise AssertionError("what is released is not read any more")


# 7. Offers carry what a choice needs.


@law("offers carry what a choice needs", launches=0)
async def offers_carry_what_a_choice_needs(trial: Trial) -> None:
    provider = trial.provider
    offers = provider.offers()
    must(offers and len({offer.id for offer in offers}) == len(offers), "there are offers, each with an id of its own")
    for offer in offers:
        must(offer.provider == provider.name and offer.observed_ms > 0, f"{offer.id} says whose it is, and when")
        must(offer.connected, f"{offer.id} can be dispatched to")
        must(offer.price_usd_per_hour >= 0 and offer.billing_quantum_s >= 1, f"{offer.id} has a price")
        must(offer.cpu_cores > 0 and offer.memory_bytes > 0, f"{offer.id} has a size")
        must(offer.runtimes and set(offer.runtimes) <= set(provider.card.runtimes), f"{offer.id} says what it runs")
        must(offer.simulated is provider.card.simulated, f"{offer.id} says whether it is real")


@law("no machine of others is offered for nothing", launches=0)
async def no_price_of_zero(trial: Trial) -> None:
    listener = Listener(None)
    provider = await trial.bench.priced_zero(listener)
    try:
        for offer in (provider or trial.provider).offers():
            free = offer.price_usd_per_hour == 0 and offer.minimum_charge_usd == 0
            must(not free or offer.trust is Trust.OWN, f"{offer.id} of others costs nothing: a mistake of the list")
    finally:
        if provider is not None:
            await provider.close()


@law("what runs is missing from what is free")
async def what_runs_is_missing_from_what_is_free(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.HOLD, "7"), trial.provider
    before = free_slots(provider, launch.offer.id)
    handle = await provider.submit(launch)
    await in_phase(provider, handle, Phase.RUNNING)
    during = free_slots(provider, launch.offer.id)
    must(before is None or during == before - 1, f"{before} were free before, {during} are free while it runs")
    await provider.cancel(handle, 0.0)
    await ended(provider, handle)
    after = free_slots(provider, launch.offer.id)
    must(after == before, f"{before} were free before, {after} are free after")


# 8. Each error has its kind, and each cause its meaning.


@law("refusals have their kind, and nothing is made by them", launches=0)
async def refusals_have_their_kind(trial: Trial) -> None:
    provider = trial.provider
    await refused(provider.submit(trial.impossible("8-impossible")), "an impossible request", InvalidRequest)
    large = provider.submit(trial.oversized("8-oversized"))
    await refused(large, "a request that is too large", NoCapacity, QuotaExceeded)
    for name in ("8-impossible", "8-oversized"):
        must(list(await provider.find(trial.key(name))) == [], f"{name} is not there")


@law("every cause has a meaning", launches=0)
async def every_cause_has_a_meaning(trial: Trial) -> None:
    del trial
    must(set(MEANINGS) == set(Cause), "each cause says whose fault it is and whether a retry is safe")


@law("the card is filled in, and no two of its lines contradict", launches=0)
async def the_card_is_filled_in(trial: Trial) -> None:
    card = trial.provider.card
    words = [word for word, _ in card.states]
    must(words and len(set(words)) == len(words), "each of its states is listed, and once")
    must(Phase.UNKNOWN not in dict(card.states).values(), "unknown is what is not listed")
    must({Phase.RUNNING, Phase.ENDED} <= set(dict(card.states).values()), "what runs and what has ended can be told")
    must(card.visibility_s >= 0 and (card.late_create_s is None or card.late_create_s >= 0), "times are not negative")
    must(card.naming.length_max >= len(trial.launch(Behaviour.SUCCEED, "").key), "our names fit")
    must(card.naming.searchable or card.lists_completely, "a key can be looked for, by search or by a complete list")
    must(card.exit_code or not card.exit_code_reliable, "an exit code that is not told is not reliable")
    must(all(limit.calls >= 1 and limit.per_s > 0 for limit in card.rate_limits), "rate limits let something through")
    must(len({limit.verb for limit in card.rate_limits}) == len(card.rate_limits), "one rate limit for each verb")
    must(card.log_streams and card.runtimes and card.billing_quantum_s >= 1, "streams, runtimes and a quantum are told")


# 9. Every call ends within its limit and can be cancelled.


@law("every call ends in time and can be cancelled")
async def calls_end_in_time(trial: Trial) -> None:
    provider = trial.provider
    handle = await provider.submit(trial.launch(Behaviour.HOLD, "9"))
    looking = asyncio.ensure_future(provider.observe([handle]))
    await asyncio.wait([looking], timeout=0)
    if looking.cancel():  # else it is back already
        await asyncio.wait([looking], timeout=CALL_LIMIT_S)
        must(looking.cancelled(), "a cancelled call is cancelled")
    async with asyncio.timeout(CALL_LIMIT_S):
        await provider.observe([handle])
        await provider.find(handle.key)

    async def stopped() -> bool:
        try:
            await provider.cancel(handle, 0.0)
        except ProviderError:
            return not provider.card.stopping.refused_in
        return True

    await eventually(stopped, END_LIMIT_S, "a stop that is taken")
    await ended(provider, handle)


# 10. Nothing is left.


@law("nothing is left after the release")
async def nothing_is_left_after_the_release(trial: Trial) -> None:
    launch, provider = trial.launch(Behaviour.HOLD, "10"), trial.provider
    handle = await provider.submit(launch)
    await in_phase(provider, handle, Phase.RUNNING)
    await trial.alive("10", True)
    mine = [each.key async for each in provider.owned(launch.tag.deployment)]
    must(handle.key in mine, "what is ours is listed")
    others = [each async for each in provider.owned("another-deployment")]
    must(others == [], f"what is listed for another deployment is not ours: {others}")
    await released(provider, handle)
    await trial.alive("10", False)
    must(await provider.release(handle), "a second release succeeds")
    left = [each.key async for each in provider.owned(launch.tag.deployment)]
    must(handle.key not in left, "what is released is not listed")
    must((await observe(provider, handle)).phase is Phase.GONE, "what is released is gone")


async def refused(call: Awaitable[Handle], what: str, *kinds: type[ProviderError]) -> None:
    """The call raises an error of a provider, of one of these kinds if any is named."""
    try:
        await call
    except ProviderError as error:
        told = f"{what} is refused as {type(error).__name__}: {error}"
        must(not kinds or isinstance(error, kinds), told)
    else:
        raise AssertionError(f"{what} is not refused")


def _of(listener: Listener, key: str) -> list[PermitRequest]:
    return [request for request in listener.asked if request.key == key]
