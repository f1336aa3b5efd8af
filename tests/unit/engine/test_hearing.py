"""What a provider says that no table knows: counted, kept once per kind of sentence, without what is private."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.corpus import CorpusFile
from placet.domain.allocations import ErrorKind, ErrorRule, Phase, Verb
from placet.domain.errors import OutcomeUnknown
from placet.domain.unheard import TEXT_MAX, redacted
from placet.engine.hearing import KEPT_MAX, Hearing
from placet.testing.scripted import CARD
from tests.support.values import SEEN


def said(text: str) -> OutcomeUnknown:
    return OutcomeUnknown("odd", provider="p", raw=text, unheard=True)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def", "abc"),
        ("see https://b.example/x?X-Amz-Signature=5f&y=1", "Signature"),
        ("https://me:pw@b.example/x", "pw"),
        ("write to ann@example.com", "ann@"),
        ("key sk1234567890abcdefghij99 refused", "sk123"),
        ('{"password": "hunter2"}', "hunter2"),
        ("one\r\ntwo\x1b[31m", "\x1b"),
    ],
)
def test_what_is_private_is_taken_out(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redacted(text)
    assert len(redacted(text * 1000)) <= TEXT_MAX


async def test_it_is_kept_once_per_kind_counted_and_there_after_a_restart(tmp_path: Path) -> None:
    file = CorpusFile(tmp_path / "messages.json")
    hearing = Hearing(SystemClock(), file)
    for number in range(5):
        hearing.failed("p", Verb.SUBMIT, said(f"503 zone {number} is asleep"))
    hearing.failed("p", Verb.SUBMIT, OutcomeUnknown("known", provider="p"))
    hearing.saw("p", replace(SEEN, phase=Phase.UNKNOWN, native_state="hibernating"))
    hearing.saw("p", SEEN)
    while hearing._writing is not None:
        await asyncio.wait([hearing._writing])
    assert dict(hearing.counts) == {("p", "submit"): 5, ("p", "observe"): 1}
    again = Hearing(SystemClock(), file).messages()
    assert {(one.verb, one.text, one.count) for one in again} == {
        ("submit", "503 zone 4 is asleep", 5),
        ("observe", "state hibernating", 1),
    }
    assert (tmp_path / "messages.json").stat().st_mode & 0o777 == 0o600


async def test_there_is_a_bound_and_what_is_beyond_it_is_counted() -> None:
    hearing = Hearing(SystemClock())
    for number in range(KEPT_MAX + 10):
        hearing.failed("p", Verb.FIND, said("ab " * (number + 1)))
    assert len(hearing.messages()) == KEPT_MAX
    assert hearing.counts["p", "find"] == KEPT_MAX + 10


@pytest.mark.parametrize("text", ["", "[{}]", '[{"provider": 1}]', "{", "5"])
def test_a_file_that_is_none_is_no_fault(tmp_path: Path, text: str) -> None:
    path = tmp_path / "messages.json"
    path.write_text(text)
    assert CorpusFile(path).read() == ()


def test_the_card_says_what_its_table_knows() -> None:
    card = replace(CARD, error_table=(ErrorRule(status=503, kind=ErrorKind.NO_CAPACITY, marker="full"),))
    assert card.knows(503, "all full")
    assert not card.knows(503, "asleep")
