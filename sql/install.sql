-- Installs or upgrades memphant without Python:
--     psql -1 -f sql/install.sql "$OWNER_URL"
-- Options, through PGOPTIONS: -c memory.partitions=16 (first install only),
-- -c memory.model=NAME -c memory.dimensions=384 (the embedding model; the bundled one by default),
-- -c memory.server_role=ROLE (the role of MEMPHANT_DATABASE_URL, where it is not the owner).
\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\o /dev/null
\ir 00_begin.sql

\set name 0001_core
\set text `cat "$(dirname "${MEMPHANT_SQL:-sql}/x")/migrations/0001_core.sql"`
