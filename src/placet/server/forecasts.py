"""From what is expected to the contract: intervals, forecasts, quotes and ways out of a refusal."""

from decimal import Decimal

from placet.contract import forecasts as views
from placet.domain.forecasts import Forecast, Quantiles
from placet.domain.offers import Interval
from placet.domain.quotes import Quote
from placet.domain.relaxations import Relaxation
from placet.domain.units import SECOND_MS, format_instant


def money(amount: Decimal) -> str:
    """Plain digits, never an exponent."""
    return format(amount, "f")


def interval(held: Interval | None) -> views.IntervalView | None:
    """A bracketed quantity, if there is one."""
    return None if held is None else bracket(held)


def bracket(held: Interval) -> views.IntervalView:
    """A bracketed quantity."""
    return views.IntervalView(low=money(held.low), likely=money(held.likely), high=money(held.high), reason=held.reason)


def quantiles(held: Quantiles) -> views.QuantilesView:
    """Three quantiles."""
    return views.QuantilesView(p10=money(held.p10), p50=money(held.p50), p90=money(held.p90))


def moments(from_ms: int | None, seconds: Quantiles) -> views.QuantilesView | None:
    """The same as moments, where it is known from when they count."""
    if from_ms is None:
        return None
    p10, p50, p90 = (
        format_instant(from_ms + int(part * SECOND_MS)) for part in (seconds.p10, seconds.p50, seconds.p90)
    )
    return views.QuantilesView(p10=p10, p50=p50, p90=p90)


def forecast(held: Forecast) -> views.ForecastView:
    """What is expected of one workload on one offer."""
    return views.ForecastView(
        cost_usd=quantiles(held.cost_usd),
        start_s=quantiles(held.start_s),
        run_s=quantiles(held.run_s),
        finish_s=quantiles(held.finish_s),
        run_assumed=held.run_assumed,
        machine=held.machine,
    )


def quote(held: Quote) -> views.QuoteView:
    """A quote with its terms."""
    return views.QuoteView(
        quote=held.text, valid_until=format_instant(held.terms.expires_ms), bound_usd=money(held.terms.bound_usd)
    )


def relaxation(held: Relaxation) -> views.RelaxationView:
    """A way out of a refusal."""
    return views.RelaxationView(
        changes=[views.ChangeView(field=one.field, words=one.words, value=one.value) for one in held.changes],
        offer=held.offer.id,
        provider=held.offer.provider,
        price_usd_per_hour=money(held.offer.price_usd_per_hour),
        cost_usd=bracket(held.cost_usd),
        start_s=money(held.start_s),
        now=held.now,
        connected=held.offer.connected,
    )
