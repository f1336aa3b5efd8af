"""Where listings come from, by the settings; a part of the composition root."""

import math
from decimal import Decimal

from placet.config import PrivateSettings, Settings
from placet.domain.listings import Listing
from placet.domain.offers import Trust
from placet.domain.units import GB
from placet.engine.catalogs import Pace, Source
from placet.engine.market import OwnTerms
from placet.ports.catalog import Bounds, Catalog

PRIVATE = "private"
SHIPPED = Pace(every_s=None, within_s=30.0, stale_s=7 * 86_400.0)
SETTLED = Pace(every_s=None, within_s=30.0, stale_s=math.inf)  # a setting does not age


def sources(settings: Settings, now_ms: int) -> list[Source]:
    """Where listings come from. Of two sources that list the same, the earlier one is taken."""
    asked = settings.catalog
    if not (asked.demonstration or asked.files or asked.gpuhunt.enabled or asked.private):
        return []
    from placet.adapters.catalog.files import DemonstrationCatalog, FileCatalog, ListedCapacity  # most read no list

    found: list[tuple[Catalog, Pace]] = []
    machines = tuple(_machine(one, place, now_ms) for place, one in enumerate(asked.private, 1) if not one.offers)
    if machines:
        found.append((ListedCapacity(PRIVATE, machines), SETTLED))
    for file in asked.files:
        pace = Pace(every_s=file.refresh_seconds, within_s=file.within_seconds, stale_s=file.stale_hours * 3600)
        path = file.path.expanduser().absolute()
        found.append((FileCatalog(path, name=file.source, bounds=Bounds(rows_max=file.rows_max)), pace))
    hunt = asked.gpuhunt
    if hunt.enabled:
        from placet.adapters.catalog.gpuhunt import GpuhuntCatalog  # few servers ask it

        catalog = GpuhuntCatalog(
            providers=hunt.providers,
            folder=None if hunt.folder is None else hunt.folder.expanduser().absolute(),
            within_s=hunt.within_seconds,
            bounds=Bounds(rows_max=hunt.rows_max),
        )
        pace = Pace(every_s=hunt.refresh_seconds, within_s=hunt.within_seconds, stale_s=hunt.stale_hours * 3600)
        found.append((catalog, pace))
    if asked.demonstration:
        found.append((DemonstrationCatalog(), SHIPPED))
    return [Source(catalog=catalog, pace=pace) for catalog, pace in found]


def _machine(one: PrivateSettings, place: int, now_ms: int) -> Listing:
    return Listing(
        source=PRIVATE,
        part="settings",
        line=place,
        provider=one.provider,
        machine=one.instance,
        region=one.region,
        jurisdiction=one.jurisdiction,
        compliance=one.compliance,
        gpu_name=one.gpu_model or None,
        gpu_count=one.gpu_count if one.gpu_model else None,
        interconnect=one.interconnect,
        vcpus=one.cpu_cores,
        memory_gb=None if one.memory is None else Decimal(one.memory) / GB,
        disk_gb=None if one.disk is None else Decimal(one.disk) / GB,
        price_usd_per_hour=one.price_per_hour,
        private=True,
        trust=Trust.OWN,
        observed_ms=now_ms,
    )


def own_terms(settings: Settings) -> list[OwnTerms]:
    """What the operator says of offers that are ours."""
    return [
        OwnTerms(
            provider=one.provider,
            source=PRIVATE,
            offers=one.offers,
            price_usd_per_hour=one.price_per_hour,
            jurisdiction=one.jurisdiction,
            compliance=one.compliance,
        )
        for one in settings.catalog.private
        if one.offers
    ]
