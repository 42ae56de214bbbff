"""What the settings say of one listener: its own ones first, then those of all listeners, then defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.listeners.places import UnusableListeners
from headrace.client.security.secret_values import UnusableSettings, resolved
from headrace.metadata.configs.listener_configs import LIMIT_CONFIGS, LISTENER_CONFIGS, PREFIX
from headrace.model.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class OwnSettings:
    def __init__(self, configs: Mapping[str, str], listener: str) -> None:
        """`configs` are all of the node's, by their names."""
        self.listener = listener
        self._configs = configs
        self._prefix = f"{PREFIX}{listener.lower()}."

    def has_own(self, name: str) -> bool:
        return f"{self._prefix}{name}" in self._configs

    def name_of(self, setting: str, mechanism: str = "") -> str:
        """Under which name it is set, for whoever has to change it."""
        if mechanism and (own := f"{self._prefix}{mechanism.lower()}.{setting}") in self._configs:
            return own
        return f"{self._prefix}{setting}" if self.has_own(setting) else setting

    def text(self, setting: str, mechanism: str = "") -> str:
        """With what it refers to, in the environment or in a file. Raises UnusableListeners."""
        name = self.name_of(setting, mechanism)
        text = self._configs.get(name)
        if text is None:
            return LISTENER_CONFIGS[setting].default or ""
        try:
            return resolved(text.strip(), name)
        except UnusableSettings as wrong:
            raise UnusableListeners(name, str(wrong).removeprefix(f"{name}: ")) from None

    def value(self, setting: str, mechanism: str = "") -> Any:
        """Of the type that the table says. Raises UnusableListeners."""
        name, text = self.name_of(setting, mechanism), self.text(setting, mechanism)
        try:
            return LISTENER_CONFIGS[setting].parse(text)
        except Refusal as refusal:
            raise UnusableListeners(name, refusal.message) from None

    def limit(self, setting: str) -> int | None:
        """One of `LIMIT_CONFIGS`; None if nothing is said of this listener. Raises UnusableListeners."""
        if not self.has_own(setting):
            return None
        name = self.name_of(setting)
        try:
            limit = LIMIT_CONFIGS[setting].parse(self._configs[name])
        except Refusal as refusal:
            raise UnusableListeners(name, refusal.message) from None
        assert isinstance(limit, int), f"{setting} is no number"
        return limit

    def given(self, family: Iterable[str]) -> dict[str, str]:
        """Those of some settings that say the same in several ways, or belong together: if the listener has any of them
        itself, what is said of all listeners does not count."""
        names = list(family)
        own = [name for name in names if self.has_own(name)]
        return {name: text for name in own or names if (text := self.text(name))}
