"""Kafka's tools in one Java machine: a start for each command would take most of the time, and say nothing.

Py4J, which comes with Spark, calls each tool's `main`. A tool ends by Kafka's own `Exit`, which is taught to throw.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from tools.kafka_tools.jars import java, kafka_class_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

COMMAND_S_MAX: Final = 60.0  # against hangs: most take a tenth of a second

TOOLS: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""By the names of their scripts."""


@dataclass(frozen=True, slots=True)
class Answer:
    exit_code: int
    text: str
    """What it printed, on stdout and stderr as they came."""


class _Ended(Exception):
    """A tool called Exit; it must not go on."""


class _Exit:
    """What Kafka's Exit calls, in a thread of the tool."""

    def __init__(self, printed: Any) -> None:
        self.answer: Answer | None = None
        self._printed = printed

    def execute(self, code: int, message: str | None) -> None:
        if self.answer is None:  # a tool may catch what we throw, and tell of it, or end once more because of it
            self.answer = Answer(code, self._printed.toString() + (f"{message}\n" if message else ""))
        raise _Ended

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$Procedure",)


class _Hooks:
    """What a tool wants to be done when its process ends."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def addShutdownHook(self, _name: str, hook: Any) -> None:  # noqa: N802 - Java's name
        self.waiting.append(hook)

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$ShutdownHookAdder",)


class ToolMachine:
    def __init__(self, scratch: Path) -> None:
        logging = scratch / "log4j2-off.properties"
        logging.write_text("rootLogger.level=off\n")
        (py4j_jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        flags = ["-Xmx256m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={logging}", "-Duser.timezone=UTC"]
        port = launch_gateway(
            jarpath=str(py4j_jar), classpath=kafka_class_path(), javaopts=flags, java_path=java(), die_on_exit=True
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port),
            callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        self._take_over_ends()

    def __enter__(self) -> ToolMachine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._gateway.shutdown()

    def run(self, tool: str, arguments: Sequence[str], typed: str = "") -> Answer:
        """One command, with `typed` on its stdin."""
        jvm = self._gateway.jvm
        self._exit.answer = None
        self._printed.reset()
        jvm.System.setIn(jvm.java.io.ByteArrayInputStream(typed.encode()))
        given = self._gateway.new_array(jvm.String, len(arguments))
        for place, argument in enumerate(arguments):
            given[place] = argument
        main = self._class_named(TOOLS[tool]).main
        thread = threading.Thread(target=self._call, args=(main, given), name=tool, daemon=True)
        thread.start()
        thread.join(COMMAND_S_MAX)
        if thread.is_alive():
            raise RuntimeError(f"{tool} {' '.join(arguments)} has not ended after {COMMAND_S_MAX:.0f} s")
        self._out.flush()
        return self._exit.answer or Answer(0, self._printed.toString())

    def _call(self, main: Any, given: Any) -> None:
        try:
            main(given)
        except Py4JJavaError as error:
            if self._exit.answer is None:
                thrown = f'Exception in thread "main" {error.java_exception.toString()}'
                self._exit.answer = Answer(1, f"{self._printed.toString()}{thrown}\n")
        hooks, self._hooks.waiting = self._hooks.waiting, []
        for hook in hooks:
            hook.run()

    def _class_named(self, name: str) -> Any:
        place: Any = self._gateway.jvm
        for part in name.split("."):
            place = getattr(place, part)
        return place

    def _take_over_ends(self) -> None:
        """One stream for all that tools print, for good: Scala's Console keeps the first that it sees."""
        gateway, jvm = self._gateway, self._gateway.jvm
        python_port = gateway.get_callback_server().get_listening_port()
        gateway.java_gateway_server.resetCallbackClient(
            gateway.java_gateway_server.getCallbackClient().getAddress(), python_port
        )
        self._printed = jvm.java.io.ByteArrayOutputStream()
        self._out = jvm.java.io.PrintStream(self._printed, True)
        jvm.System.setOut(self._out)
        jvm.System.setErr(self._out)
        self._exit, self._hooks = _Exit(self._printed), _Hooks()
        end = self._class_named("org.apache.kafka.common.utils.Exit")
        end.setExitProcedure(self._exit)
        end.setHaltProcedure(self._exit)
        end.setShutdownHookAdder(self._hooks)
