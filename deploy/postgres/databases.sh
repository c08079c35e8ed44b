#!/bin/sh
# Run once by the PostgreSQL container on an empty volume: one database and one role per service.
set -eu
for name in accounts router ledger; do
    psql -v ON_ERROR_STOP=1 -U postgres -v name="$name" -v password="$POSTGRES_PASSWORD" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
done
