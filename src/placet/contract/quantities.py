"""Quantities as people read them; clients print sizes, times and money the way the server's messages do."""

from placet.domain.units import format_bytes as format_bytes
from placet.domain.units import format_duration_ms as format_duration_ms
from placet.domain.units import format_money as format_money
from placet.domain.units import parse_money as parse_money
