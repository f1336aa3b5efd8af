"""Which attempts live at an engine, as far as one server knows. It decides nothing and asks nobody."""

from collections.abc import Mapping

from placet.adapters.providers.container import names


class Living:
    """Marks of attempts that take something of the machine, by key."""

    def __init__(self) -> None:
        self._marks: dict[str, Mapping[str, str]] = {}
        self._since: dict[str, int] = {}
        self._over: set[str] = set()
        self._turn = 0

    def values(self) -> list[Mapping[str, str]]:
        """The marks of all that live."""
        return list(self._marks.values())

    def add(self, labels: Mapping[str, str]) -> None:
        """One was made."""
        key = labels[names.KEY]
        self._marks[key] = labels
        self._since[key] = self._turn

    def end(self, key: str) -> bool:
        """One has ended; true when it was thought to live."""
        self._over.add(key)
        return self._marks.pop(key, None) is not None

    def look(self) -> int:
        """A list is asked for: what is made from now on may be missing from it."""
        self._turn += 1
        return self._turn

    def listed(self, attempts: list[Mapping[str, str]], over: set[str], turn: int) -> bool:
        """What a list says; true when something became free."""
        before = set(self._marks)
        there = {labels[names.KEY] for labels in attempts}
        for labels in attempts:
            key = labels[names.KEY]
            if key not in over and key not in self._over:
                self._marks.setdefault(key, labels)
        for key in before:
            if key in over or (key not in there and self._since.get(key, 0) < turn):
                self._marks.pop(key, None)
        self._over &= there
        self._since = {key: since for key, since in self._since.items() if key in self._marks}
        return bool(before - set(self._marks))
