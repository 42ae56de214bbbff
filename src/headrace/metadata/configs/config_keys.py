"""What a setting is: its name, type, bounds and meaning. The tables are in `topic_configs.py` and `node_configs.py`.

Settings live as text, as Kafka's clients send and show them. A `ConfigKey` decides whether a text is allowed and turns
it into a value; everything that runs uses the typed values of `TopicSettings` and `NodeSettings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headrace.model.errors import ErrorCode, Refusal

ConfigValue = bool | int | float | str | tuple[str, ...] | None

CONFIG_TEXT_MAX = 32_767  # characters; the longest text that every version of the config requests can carry back

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# Python's own int() and float() also take underscores, 'nan' and digits of other scripts; no Kafka client means those.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class ConfigType(IntEnum):
    """Kafka's numbers, as DescribeConfigs sends them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where an effective value comes from; Kafka's numbers. The smaller one wins, and a group's own over all."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class ResourceKind(IntEnum):
    """What a setting can belong to; Kafka's numbers. Other kinds that Kafka knows are refused."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def resource_kind(number: int) -> ResourceKind:
    """The kind that a request names by its number."""
    try:
        return ResourceKind(number)
    except ValueError:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"only topics (2), brokers (4) and groups (32) have settings here, not resource type {number}",
        ) from None


class ConfigResource(NamedTuple):
    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        if self == CLUSTER_DEFAULTS:
            return "the cluster's broker defaults"
        return f"{self.kind.name.lower()} {self.name!r}"


CLUSTER_DEFAULTS = ConfigResource(ResourceKind.BROKER, "")
"""The broker without a name: what is set here holds for every node that has no value of its own."""


class Synonym(NamedTuple):
    """A node's setting that gives a topic's setting its default, perhaps in a larger unit."""

    name: str
    factor: int = 1

    def in_topic_units(self, text: str) -> str:
        if self.factor == 1:
            return text
        number = int(text)
        return str(number * self.factor) if number >= 0 else "-1"  # minus one is "no limit" in every unit


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting. `low` and `high` are inclusive; with `default` None the setting is absent unless it is given."""

    name: str
    type: ConfigType
    default: str | None
    doc: str
    low: float | None = None
    high: float | None = None
    allowed: tuple[str, ...] = ()
    synonyms: tuple[Synonym, ...] = ()
    is_dynamic: bool = True
    has_effect: bool = True
    element: str = ""
    """What a text, or each value of a list, must look like: a regular expression."""
    element_words: str = ""

    @property
    def field(self) -> str:
        """The name of this setting in `TopicSettings` or `NodeSettings`."""
        return self.name.removeprefix("headrace.").replace(".", "_")

    @property
    def documentation(self) -> str:
        return self.doc if self.has_effect else f"{self.doc} Accepted and kept, but it has no effect yet."

    @property
    def is_list(self) -> bool:
        return self.type is ConfigType.LIST

    @property
    def is_secret(self) -> bool:
        """Nobody is ever shown it."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The value that `text` stands for; raises Refusal(INVALID_CONFIG) that says what is allowed."""
        value = _parsed(self.type, text)
        if value is None or len(text) > CONFIG_TEXT_MAX or not self._is_allowed(value):
            shown = "that" if self.is_secret else _shown(text)
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{self.name} must be {self.expectation}, not {shown}")
        return value

    def _is_allowed(self, value: ConfigValue) -> bool:
        if isinstance(value, tuple):
            if self.element and not all(re.fullmatch(self.element, part, re.ASCII) for part in value):
                return False
            return len(set(value)) == len(value) and (not self.allowed or set(self.allowed).issuperset(value))
        if isinstance(value, str):
            if self.element and not re.fullmatch(self.element, value):
                return False
            return not self.allowed or value in self.allowed
        low, high = self._bounds()
        return value is None or ((low is None or value >= low) and (high is None or value <= high))

    def _bounds(self) -> tuple[float | None, float | None]:
        if self.type is ConfigType.INT:
            return (-INT_MAX - 1 if self.low is None else self.low, INT_MAX if self.high is None else self.high)
        if self.type is ConfigType.LONG:
            return (-LONG_MAX - 1 if self.low is None else self.low, LONG_MAX if self.high is None else self.high)
        return self.low, self.high

    @property
    def expectation(self) -> str:
        """What a value must be, in words that finish the sentence 'x must be …'."""
        match self.type:
            case ConfigType.BOOLEAN:
                return "'true' or 'false'"
            case ConfigType.STRING:
                allowed = ", ".join(it or "nothing" for it in self.allowed)
                return f"one of {allowed}" if allowed else self.element_words or "a text"
            case ConfigType.PASSWORD:
                return "a text"
            case ConfigType.LIST:
                what = f"the values {', '.join(self.allowed)}" if self.allowed else self.element_words or "values"
                return f"a comma-separated list of {what}, each at most once"
            case _:
                return f"{'a number' if self.type is ConfigType.DOUBLE else 'a whole number'}{self._range_words()}"

    def _range_words(self) -> str:
        low, high = self._bounds()
        if self.high is not None and low is not None:
            return f" from {low} to {high}"
        return "" if self.low is None else f" of at least {self.low}"


def _parsed(kind: ConfigType, text: str) -> ConfigValue:
    text = text.strip()
    match kind:
        case ConfigType.BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        case ConfigType.STRING | ConfigType.PASSWORD:
            return text
        case ConfigType.LIST:
            return split_list(text)
        case ConfigType.DOUBLE:
            return float(text) if _DECIMAL_NUMBER.fullmatch(text) else None
        case ConfigType.INT | ConfigType.LONG:
            return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def split_list(text: str) -> tuple[str, ...]:
    """A list's elements; an empty text is an empty list."""
    return tuple(element for part in text.split(",") if (element := part.strip()))


def list_with(text: str, added: str) -> str:
    """APPEND: the elements of `added` that are not there yet come last."""
    return ",".join(dict.fromkeys(split_list(text) + split_list(added)))


def list_without(text: str, removed: str) -> str:
    """SUBTRACT: elements that are not there are no error."""
    unwanted = split_list(removed)
    return ",".join(element for element in split_list(text) if element not in unwanted)
