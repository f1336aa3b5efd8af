"""Unit tests of the store's parts."""
