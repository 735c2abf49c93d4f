-- What can be wrong with a store, as a finding per line: select * from memory.health(); memphant doctor
-- prints the same, beside what only a client can see.

create or replace function memory._backlog()
returns table (waiting bigint, failed bigint, overdue bigint, errors text)
language sql stable security definer
set search_path from current
as $$
    select
        count(*),
        count(*) filter (where q.last_error is not null),
        count(*) filter (where q.not_before < now() - interval '10 minutes'),
        (select string_agg(e.last_error || ' (' || e.memories || ')', '; ' order by e.memories desc, e.last_error)
        from (
            select f.last_error, count(*) as memories
            from memory.embedding_queue as f
            where f.last_error is not null
            group by f.last_error
            order by count(*) desc, f.last_error
            limit 3) as e)
    from memory.embedding_queue as q
$$;
comment on function memory._backlog() is
'How many memories wait for a vector, of all users; how many attempts failed, with the most frequent reasons; how many nobody '
'has tried for ten minutes. Counts and reasons only, no content. Security definer: it counts across users.';

create or replace function memory.health()
returns table (level text, subject text, finding text, advice text)
language sql stable
set search_path from current
as $$
    with indexes as (
        -- of every partition: its part of the HNSW index, with the parameters it is built with
        select p.inhrelid::regclass as partition, i.indexrelid, i.indisvalid,
            coalesce((select o.option_value from pg_options_to_table(c.reloptions) as o where o.option_name = 'm'), '16') as m,
            coalesce(
                (select o.option_value from pg_options_to_table(c.reloptions) as o where o.option_name = 'ef_construction'),
                '64') as ef_construction
        from pg_inherits as p
        left join (
            select x.indrelid, x.indexrelid, x.indisvalid
            from pg_inherits as h join pg_index as x on x.indexrelid = h.inhrelid
            where h.inhparent = to_regclass('memory.memories_embedding_hnsw')) as i
            on i.indrelid = p.inhrelid
        left join pg_class as c on c.oid = i.indexrelid
        where p.inhparent = 'memory.memories'::regclass
    ),
    hnsw as (
        select count(*) as partitions, count(*) filter (where i.indisvalid) as valid,
            sum(pg_relation_size(i.indexrelid)) as bytes,
            string_agg(distinct 'm ' || i.m || ', ef_construction ' || i.ef_construction, ' and '
                order by 'm ' || i.m || ', ef_construction ' || i.ef_construction) as parameters,
            'm ' || memory._number('hnsw.m') || ', ef_construction ' || memory._number('hnsw.ef_construction') as wanted
        from indexes as i
    ),
    me as (
        select r.rolname as name, r.rolsuper or r.rolbypassrls as unbound,
            pg_has_role(r.oid, 'memphant_dba', 'usage') or pg_has_role(r.oid, 'memphant_maintenance', 'usage') as sees_all,
            pg_has_role(r.oid, 'memphant_server', 'usage') as serves,
            pg_has_role(r.oid, n.nspowner, 'usage') as owns
        from pg_roles as r, pg_namespace as n
        where r.rolname = current_user and n.nspname = 'memory'
    ),
    open_tables as (
        select string_agg(c.relname, ', ' order by c.relname) as names
        from pg_class as c
        where c.relnamespace = 'memory'::regnamespace and c.relkind in ('r', 'p')
            and exists (select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'user_id')
            and not (c.relrowsecurity and c.relforcerowsecurity)
    ),
    invalid as (
        select string_agg(c.relname, ', ' order by c.relname) as names, min(c.relname) as first,
            bool_or(a.amname = 'hnsw') as vectors,
            -- the lock that memphant rebuild-index holds
            exists (
                select from pg_locks as l join pg_database as d on d.oid = l.database
                where l.locktype = 'advisory' and l.classid = 20260801 and l.objid = 3 and d.datname = current_database())
                as rebuilding
        from pg_index as x join pg_class as c on c.oid = x.indexrelid join pg_am as a on a.oid = c.relam
        where c.relnamespace = 'memory'::regnamespace and not x.indisvalid
            and c.relname <> 'memories_embedding_hnsw'
            and not exists (select from indexes as i where i.indexrelid = x.indexrelid)
    ),
    untended as (
        select count(*) filter (where c.reltuples < 0) as unknown,
            count(*) filter (where s.n_dead_tup > 10000 and s.n_dead_tup > s.n_live_tup / 4) as dead
        from pg_class as c join pg_stat_all_tables as s on s.relid = c.oid
        where c.relnamespace = 'memory'::regnamespace and c.relkind = 'r' and pg_relation_size(c.oid) > 1000000
    ),
    model as (
        select e.name, e.dimensions, a.atttypmod as column_dimensions
        from pg_attribute as a left join memory.embedding_model as e on true
        where a.attrelid = 'memory.memories'::regclass and a.attname = 'embedding'
    )
    select
        case when pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' then 'error' else 'ok' end,
        'PostgreSQL',
        current_setting('server_version') || case
            when pg_is_in_recovery() then ', a standby: it cannot save'
            when current_setting('transaction_read_only') = 'on' then ', read-only: it cannot save'
            else '' end,
        case
            when pg_is_in_recovery() then 'connect to the primary server'
            when current_setting('transaction_read_only') = 'on' then 'set default_transaction_read_only to off' end
    union all
    select
        case when a.default_version <> e.extversion then 'warning' else 'ok' end,
        'pgvector',
        e.extversion || case when a.default_version <> e.extversion
            then ', while the server has ' || a.default_version else '' end,
        case when a.default_version <> e.extversion then 'run: alter extension vector update;' end
    from pg_extension as e join pg_available_extensions as a on a.name = e.extname
    where e.extname = 'vector'
    union all
    select
        case when me.unbound or (me.sees_all and me.serves) then 'error' when me.owns or me.sees_all then 'warning' else 'ok' end,
        'role',
        me.name || case
            when me.unbound then ' is a superuser or has BYPASSRLS: nothing keeps users apart'
            when me.sees_all then ' reads every memory: right for people in psql, wrong for a server'
            when me.owns then ' owns the schema: forced row-level security still binds it, but it could change the policies'
            else ', an ordinary role under row-level security' end,
        case
            when me.unbound or me.sees_all or me.owns then
                'let the server connect as a role of its own (MEMPHANT_DATABASE_URL), the owner only as MEMPHANT_INSTALL_URL, '
                'and run memphant install'
        end
    from me
    union all
    select
        case when t.names is null then 'ok' else 'error' end,
        'row-level security',
        coalesce('not enabled and forced on ' || t.names, 'enabled and forced on every table with user data'),
        case when t.names is not null then 'run memphant install' end
    from open_tables as t
    union all
    select
        case when model.dimensions is distinct from model.column_dimensions then 'error' else 'ok' end,
        'model',
        case
            when model.name is null then 'none is recorded'
            else model.name || ', ' || model.dimensions || ' dimensions' || case
                when model.dimensions <> model.column_dimensions
                    then ', but the column embedding has ' || model.column_dimensions else '' end
        end,
        case when model.dimensions is distinct from model.column_dimensions then 'run memphant install' end
    from model
    union all
    select
        case when hnsw.valid < hnsw.partitions then 'error' when hnsw.parameters <> hnsw.wanted then 'warning' else 'ok' end,
        'vector index',
        case
            when hnsw.valid < hnsw.partitions
                then format('missing or invalid in %s of %s partitions', hnsw.partitions - hnsw.valid, hnsw.partitions)
            else format('%s in %s partitions (%s)', pg_size_pretty(hnsw.bytes), hnsw.partitions, hnsw.parameters)
                || case when hnsw.parameters <> hnsw.wanted then ', while the settings say ' || hnsw.wanted else '' end
        end,
        case when hnsw.valid < hnsw.partitions or hnsw.parameters <> hnsw.wanted then 'run memphant rebuild-index' end
    from hnsw
    union all
    select
        case when invalid.names is null or invalid.rebuilding then 'ok' else 'error' end,
        'other indexes',
        case when invalid.rebuilding then 'memphant rebuild-index is running'
            else coalesce('invalid: ' || invalid.names, 'all valid') end,
        case
            when invalid.rebuilding then null
            when invalid.vectors then 'an interrupted rebuild left it: run memphant rebuild-index'
            when invalid.first ~ '_cc(new|old)\d*$' then format('as the owner: drop index concurrently memory.%I;', invalid.first)
            when invalid.first is not null then format('as the owner: reindex index concurrently memory.%I;', invalid.first)
        end
    from invalid
    union all
    select
        case when t.unknown + t.dead > 0 then 'warning' else 'ok' end,
        'statistics',
        case
            when t.unknown > 0 then format('%s tables were never analyzed: searches may be planned badly', t.unknown)
            when t.dead > 0 then format('%s tables hold many dead rows: searches read them too', t.dead)
            else 'autovacuum keeps up'
        end,
        case when t.unknown + t.dead > 0 then 'as the owner: vacuum (analyze) memory.memories, memory.words; see that autovacuum runs' end
    from untended as t
    union all
    select
        case when b.failed + b.overdue > 0 then 'warning' else 'ok' end,
        'backlog',
        case when b.waiting = 0 then 'every memory is embedded'
            else format('%s memories wait for a vector and are found by words only', b.waiting)
                || coalesce(': ' || b.errors, '')
        end,
        case
            when b.failed > 0 then 'mend the embedding endpoint (below); a running server then embeds them'
            when b.overdue > 0 then 'no server has tried for ten minutes: start one'
        end
    from memory._backlog() as b
    union all
    select
        case when memory._setting('clock.test') is null then 'ok' else 'warning' end,
        'settings',
        coalesce(
            'changed: ' || string_agg(s.name || ' = ' || (s.value #>> '{}') || coalesce(' (' || (s.default_value #>> '{}') || ')', ''),
                ', ' order by s.name),
            'all at their defaults'),
        case when memory._setting('clock.test') is not null
            then 'the clock stands still: update memory.settings set value = null where name = ''clock.test'';' end
    from memory.settings as s
    where s.value is distinct from s.default_value and s.value is not null and s.name not like 'schema.%'
$$;
comment on function memory.health() is
'What is right and wrong with this store, as the role that asks: level (ok, warning, error), subject, finding, and what to do.';
