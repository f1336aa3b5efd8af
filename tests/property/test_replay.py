"""A choice made again from its record comes out the same, whatever it was made from."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.adapters.store.codec import decision_columns, decision_from
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate
from placet.domain.spec import Spec
from placet.stages.explaining import KEPT_WHOLE, decision, replay, what_if
from placet.stages.filters import Asked
from placet.stages.placement import DROPS_SHOWN, place
from placet.stages.ranking import RANKED_MAX
from placet.stages.sizing import size
from placet.testing.conformance.store_values import new_workload
from tests.property.test_ranking import some_attempts, some_offers, specs
from tests.support.values import NOW_MS


@settings(max_examples=200)
@given(specs, st.integers(0, 2**32), st.sampled_from([1, 3, 12, KEPT_WHOLE, KEPT_WHOLE + 1, 40]))
def test_the_same_record_gives_the_same_plan(spec: Spec, number: int, count: int) -> None:
    rng, workload = np.random.default_rng(number), replace(new_workload(number), spec=spec)
    known = some_offers(rng)[:count]
    table = OfferTable.of(known)
    asked = Asked(
        spec=spec,
        demand=size(spec),
        now_ms=NOW_MS + number,
        excluded=tuple(offer.id for offer in known if rng.random() < 0.2),
        experience=some_attempts(rng, known),
        exploration=float(rng.choice([0.0, 1.0])),
    )
    plan = place(asked, table, seed=workload.id)
    if plan.fate is not Fate.FITS:
        return
    made = decision(workload, asked, table, plan)
    kept = decision_from((decision_columns(made)["document"],))
    assert kept == made
    assert kept.whole == (count <= KEPT_WHOLE)
    assert len(kept.offers) <= max(KEPT_WHOLE, RANKED_MAX + DROPS_SHOWN)
    again = replay(spec, kept)
    assert again.differences == ()
    assert again.plan.ranked == plan.ranked
    for alternative in what_if(spec, kept):
        assert alternative.winner is None or alternative.winner.offer_id in {offer.id for offer in kept.offers}
