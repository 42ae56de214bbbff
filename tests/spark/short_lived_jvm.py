"""How JVMs are started that live for minutes."""

from __future__ import annotations

from typing import Final

SHORT_LIVED_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""To compile each method as well as possible, on threads of its own, takes half of all the processor time of Spark's
tests, and never pays."""
