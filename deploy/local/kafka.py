"""A real single-node Apache Kafka (KRaft) on Java, its jars fetched once by Maven.
Used by the tests and benches, and by `make run` where it is asked for; see deploy/kafka/pom.xml.
"""

import hashlib
import re
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

from deploy.local.errors import ToolMissing
from deploy.local.lock import DirectoryLock
from deploy.local.ports import LOOPBACK, pick_free_port
from deploy.local.process import LocalServer
from deploy.local.wire import broker_serves

_ROOT = Path(__file__).resolve().parents[2]
_POM = _ROOT / "deploy" / "kafka" / "pom.xml"
_PROPERTIES = _ROOT / "deploy" / "kafka" / "server.properties"
DEFAULT_LIBS = _ROOT / "build" / "kafka" / "libs"

_MIN_JAVA = 17
_RESOLVE_SECONDS = 600.0

_JVM = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:+UseG1GC",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class KafkaServer(LocalServer):
    """Apache Kafka. `settings` are further lines of server.properties, for tests that need them.

    Topics, offsets and records survive `stop` and `kill`; `address` stays the same over restarts of the object.
    """

    name = "Apache Kafka"
    start_seconds = 90.0

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        port_setting: str = "the port",
        libs: Path = DEFAULT_LIBS,
        settings: dict[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port, port_setting)
        self._controller_port = pick_free_port()
        self._libs = libs
        self._settings = settings or {}

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _prepare(self) -> None:
        resolve_class_path(self._libs)
        self._write_properties()
        if not (self.data / "meta.properties").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            # Attached to its option: the id may begin with a dash.
            formatting = ["format", f"--cluster-id={cluster}", "--config", str(self._properties), "--ignore-formatted"]
            self._run_tool([*self._java("-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", *formatting])

    def _write_properties(self) -> None:
        settings = {
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "log.dirs": str(self.data),
            **self._settings,
        }
        own = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._properties.write_text(_PROPERTIES.read_text() + "\n" + own)

    def _java(self, *flags: str) -> list[str]:
        return [_find("java"), *_JVM, *flags, "-cp", f"{self._libs}/*"]

    def _command(self) -> Sequence[str]:
        return [*self._java(), "kafka.Kafka", str(self._properties)]

    def _answers(self) -> bool:
        return broker_serves(LOOPBACK, self.port)


def java_missing() -> str | None:
    """Why Apache Kafka cannot run here (no Java 17, no Maven), or None when it can."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"`{tool}` is not on the PATH"
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False)
    version = re.search(r'version "(\d+)', done.stderr)
    if version is None or int(version.group(1)) < _MIN_JAVA:
        return f"`java` is older than {_MIN_JAVA}"
    return None


def resolve_class_path(libs: Path = DEFAULT_LIBS) -> None:
    """Fill `libs` with Kafka's jars unless it holds those of the present pom. Safe to call from many processes.

    Raises ToolMissing when Maven is missing or cannot get them, with the end of what it said.
    """
    wanted = hashlib.sha256(_POM.read_bytes()).hexdigest()
    stamp = libs / "pom.sha256"
    with DirectoryLock(libs.parent, "resolve.lock", wait_seconds=_RESOLVE_SECONDS):
        if stamp.exists() and stamp.read_text() == wanted:
            return
        unfinished = libs.with_name(libs.name + ".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        _copy_jars(unfinished)
        (unfinished / stamp.name).write_text(wanted)
        shutil.rmtree(libs, ignore_errors=True)
        unfinished.rename(libs)


def _copy_jars(target: Path) -> None:
    command = [_find("mvn"), "-B", "-q", "-ntp", "-Dstyle.color=never", "-f", str(_POM)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVE_SECONDS, check=False)
    if done.returncode != 0:
        said = "\n".join(f"    {line}" for line in (done.stdout + done.stderr).splitlines()[-15:])
        raise ToolMissing(f"Apache Kafka: Maven could not fetch its jars:\n{said}")


def _find(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        raise ToolMissing(f"Apache Kafka: `{tool}` is not on the PATH; install Java {_MIN_JAVA} or newer and Maven")
    return found
