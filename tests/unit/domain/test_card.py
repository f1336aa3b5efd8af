"""A card answers for what it does not list: an unlisted word is unknown, an unlisted error may have had an effect."""

from dataclasses import replace

from placet.adapters.refusals import ERRORS
from placet.domain.allocations import ErrorKind, ErrorRule, Phase
from placet.testing.scripted import CARD

RULES = (
    ErrorRule(status=400, kind=ErrorKind.NO_CAPACITY, marker="no capacity"),
    ErrorRule(status=400, kind=ErrorKind.INVALID_REQUEST),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="token expired"),
)


def test_a_word_that_is_not_listed_is_unknown() -> None:
    card = replace(CARD, states=(("booting", Phase.PROVISIONING),))
    assert [card.phase(word) for word in ("booting", "BOOTING", "")] == [
        Phase.PROVISIONING,
        Phase.UNKNOWN,
        Phase.UNKNOWN,
    ]


def test_the_first_rule_that_fits_counts_and_none_means_that_nobody_knows() -> None:
    card = replace(CARD, error_table=RULES)
    assert card.error_kind(400, "there is no capacity now") is ErrorKind.NO_CAPACITY
    assert card.error_kind(400, "no such image") is ErrorKind.INVALID_REQUEST
    assert card.error_kind(500, "token expired") is ErrorKind.AUTH
    assert card.error_kind(500, "internal") is ErrorKind.OUTCOME_UNKNOWN


def test_every_kind_has_an_error() -> None:
    assert set(ERRORS) == set(ErrorKind)
    assert len(set(ERRORS.values())) == len(ERRORS)
