"""Real clients that nobody here wrote, run against the real system in front of a scripted provider.

`make compat` starts PostgreSQL, Valkey, Apache Kafka and every service, puts the suite's scripted provider behind the
catalogue once per provider format (a *face*), and runs the suite on each face. The suite is not part of this
repository: `make compat SUITE=path` or KENARI_COMPAT_SUITE says where it lies. `ONLY=codex,openai-py` takes some of its
clients, `FACES=anthropic` some of the faces. It installs its clients by itself, once, into COMPAT_ENV.
What is left out, and why, stands in exclusions.py and is printed by every run. Logs are in build/compat.
"""
