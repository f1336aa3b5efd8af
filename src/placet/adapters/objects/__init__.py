"""Object stores by their URL: buckets of S3, GCS and Azure. What the objects mean is for others to know."""

from placet.adapters.objects.places import SCHEMES as SCHEMES
from placet.adapters.objects.places import Access as Access
from placet.adapters.objects.places import Place as Place
from placet.adapters.objects.places import Unusable as Unusable
from placet.adapters.objects.places import parse_place as parse_place
