"""Write docs/settings.md from the tables of settings, so that the page and the code cannot drift apart.

python tools/write_settings_page.py           write it
python tools/write_settings_page.py --check   exit 1 if it is out of date
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.metadata.configs.group_configs import GROUP_CONFIGS
from headrace.metadata.configs.listener_configs import LIMIT_CONFIGS, LISTENER_CONFIGS, PREFIX
from headrace.metadata.configs.node_configs import BEHAVIOUR_CONFIGS, IDENTITY_CONFIGS
from headrace.metadata.configs.topic_configs import TOPIC_CONFIGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.metadata.configs.config_keys import ConfigKey

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

HEAD = """# Settings

<!-- Written by tools/write_settings_page.py from the tables in src/headrace/metadata; do not edit. -->

Names are Kafka's; our own begin with `headrace.`. A topic's value comes from the first of these that has one: the topic
itself, the node (`headrace configs alter --broker ID`), the cluster's defaults (AlterConfigs of the
broker named "", from any Kafka admin client), the node's start (`headrace serve -X name=value`, or its configuration
file), the default below.

```
headrace topics create --name events --partitions 3 --config retention.ms=3600000
headrace configs alter --topic events --set max.message.bytes=5000000
headrace configs describe --topic events
```
"""


LISTENERS_HEAD = """Where a node listens, and what it asks of whoever connects; see [security.md](security.md). What
begins with `ssl.`, `sasl.` or `connection` may be said of one listener, as `listener.name.NAME.ssl.client.auth`, and of
one of its mechanisms, as `listener.name.NAME.oauthbearer.sasl.oauthbearer.expected.audience`. A value may say where it
stands: `${env:NAME}`, `${file:/path}`. Secrets are shown to nobody.
"""


def page() -> str:
    topic = _table(TOPIC_CONFIGS.values(), "Node's default")
    node = _table(BEHAVIOUR_CONFIGS, "Changes while it runs")
    of_one = (replace(key, name=f"{PREFIX}NAME.{key.name}") for key in LIMIT_CONFIGS.values())
    listeners = _table((*LISTENER_CONFIGS.values(), *of_one), "Changes while it runs")
    identity = "\n".join(f"- `{key.name}`: {key.documentation}" for key in IDENTITY_CONFIGS)
    return "\n".join(
        (
            HEAD,
            "## Topics\n",
            topic,
            "\n## Groups\n",
            "Of groups of the newer protocol (KIP-848), set by `headrace configs alter --group NAME`.\n",
            _table(GROUP_CONFIGS.values(), "Node's default"),
            "\n## Nodes\n",
            'Besides these, a node takes the names in the column "Node\'s default" above.\n',
            node,
            "\n## Listeners\n",
            LISTENERS_HEAD,
            listeners,
            "\nShown by `configs describe --broker`, given by flags of `headrace serve`:\n",
            identity,
            "",
        )
    )


def _table(keys: Iterable[ConfigKey], last: str) -> str:
    rows = [f"| Name | Type | Default | {last} | Meaning |", "|---|---|---|---|---|"]
    for key in keys:
        if last == "Node's default":
            extra = ", ".join(f"`{synonym.name}`" for synonym in key.synonyms)
        else:
            extra = "yes" if key.is_dynamic else "no"
        default = f"`{key.default}`" if key.default else "empty"
        rows.append(f"| `{key.name}` | {key.type.name.lower()} | {default} | {extra} | {key.documentation} |")
    return "\n".join(rows)


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/settings.md is out of date; run `make generate`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
