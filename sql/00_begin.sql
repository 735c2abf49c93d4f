-- Before anything else, in the installing transaction: what this database must offer, one installer at
-- a time, the roles, and the schema. Every statement can run again.

do $$
begin
    if current_setting('server_version_num')::integer < 150000 then
        raise exception 'memphant needs PostgreSQL 15 or newer; this is %', current_setting('server_version')
            using hint = 'Use another database (MEMPHANT_DATABASE_URL), or none for the embedded one.';
    end if;
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception 'memphant needs a database with encoding UTF8; this one has %', current_setting('server_encoding')
            using hint = 'Create it with: create database … encoding ''UTF8'' template template0.';
    end if;
    -- polled, so that a waiting installer holds no snapshot and no place in a lock queue
    while not pg_try_advisory_xact_lock(20260801, 1) loop
        perform pg_sleep(0.05);
    end loop;
end;
$$;

do $$
begin
    if not exists (select from pg_extension where extname = 'vector') then
        create extension vector;
    end if;
exception
    when insufficient_privilege then
        raise exception 'the extension vector is not installed here, and % may not create it', current_user
            using hint = 'Let an administrator run: create extension vector;';
    when undefined_file or feature_not_supported then
        raise exception 'the extension vector (pgvector) is not available on this server'
            using hint = 'Install pgvector 0.8 or newer beside this Postgres, or use another database.';
end;
$$;

do $$
declare
    version text := (select extversion from pg_extension where extname = 'vector');
begin
    if string_to_array(version, '.')::integer[] < array[0, 8] then
        raise exception 'memphant needs pgvector 0.8 or newer; this database has %', version
            using hint = 'Upgrade it, then run: alter extension vector update;';
    end if;
end;
$$;

-- memphant_server: what the server may do. memphant_dba: reads everything. memphant_maintenance: owns
-- the few functions that work across users. None can log in by itself. For this transaction, which no
-- other session sees, the installer is a member of memphant_maintenance: it may replace what that role
-- owns, and a migration's update reaches every row. 90_security.sql ends that.
do $$
declare
    name text;
    modern constant boolean := current_setting('server_version_num')::integer >= 160000;
begin
    if modern then
        -- or the installer would stay a member of what it creates, where a service has set this
        perform set_config('createrole_self_grant', '', true);
    end if;
    foreach name in array array['memphant_server', 'memphant_dba', 'memphant_maintenance'] loop
        begin
            if not exists (select from pg_roles where rolname = name) then
                execute format('create role %I nologin', name);
            end if;
        exception
            -- roles belong to the cluster: another database's installer was faster
            when duplicate_object or unique_violation then null;
        end;
    end loop;
    execute 'grant memphant_maintenance to current_user'
        || case when modern then ' with inherit true, set true' else '' end;
    if not pg_has_role('memphant_maintenance', 'usage') then
        raise exception '% does not inherit the rights of memphant_maintenance', current_user
            using hint = format('Let an administrator run: alter role %I inherit;', current_user);
    end if;
exception when insufficient_privilege then
    raise exception '% may not create or grant the roles of memphant: %', current_user, sqlerrm
        using hint = format(
            'Let an administrator run: create role memphant_server nologin; create role memphant_dba nologin; '
            'create role memphant_maintenance nologin; grant memphant_server, memphant_dba, memphant_maintenance '
            'to %I with admin option;', current_user);
end;
$$;

create schema if not exists memory;
comment on schema memory is 'memphant: long-term memory for AI agents. Start with: table memory.help; table memory.overview;';

-- Functions take their search_path from this session: pg_catalog first, then where pgvector lives.
select set_config(
    'search_path',
    'pg_catalog, ' || (
        select quote_ident(n.nspname)
        from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
        where e.extname = 'vector') || ', pg_temp',
    true);

create table if not exists memory.migrations (
    name text primary key,
    checksum text not null,
    breaking boolean not null default false,
    applied_at timestamptz not null default now()
);

-- An upgrade locks every table of users before it changes anything: who works meanwhile waits a moment
-- and then meets the new schema. Taken one by one where they are needed, the locks ended in deadlocks.
-- memory.users first, as every function does. Whoever holds another one is not waited for with the first
-- in hand: all are given back, and tried again.
do $$
declare
    before constant text := current_setting('lock_timeout');
    names constant text := (
        select string_agg(format('memory.%I', c.relname), ', ' order by c.relname <> 'users', c.relname)
        from pg_class as c
        where c.relnamespace = 'memory'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            and c.relrowsecurity);
begin
    if names is null then
        return;
    end if;
    -- shorter than deadlock_timeout, so that nobody is ended for waiting
    perform set_config('lock_timeout', '300ms', true);
    loop
        begin
            execute format('lock table %s in access exclusive mode', names);
            exit;
        exception when lock_not_available or deadlock_detected then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    perform set_config('lock_timeout', before, true);
end;
$$;
