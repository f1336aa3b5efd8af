"""Translations between the ports and concrete things; no decision about a workload is taken here."""
