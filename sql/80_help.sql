-- What a DBA opens first: the public functions, and the state of the store.

create or replace view memory.help as
select
    p.proname::text as function,
    pg_catalog.pg_get_function_arguments(p.oid) as arguments,
    pg_catalog.obj_description(p.oid, 'pg_proc') as meaning
from pg_catalog.pg_proc as p
where p.pronamespace = 'memory'::regnamespace and p.proname not like '\_%'
order by p.proname;
comment on view memory.help is 'The public functions of memphant with arguments and meaning.';

create or replace function memory._overview()
returns table (subject text, figure text)
language sql stable security definer
set search_path from current
as $$
    select 'users', count(*)::text from memory.users
    union all
    select 'memories, ' || m.state, count(*)::text from memory.memories as m group by m.state
    union all
    select 'not yet embedded', count(*)::text from memory.embedding_queue
    union all
    select 'tokens in force', count(*)::text from memory.access_tokens as t where t.revoked_at is null
    union all
    select 'embedding model', e.name || ', ' || e.dimensions || ' dimensions' from memory.embedding_model as e
    union all
    select 'size of memories', pg_size_pretty(sum(pg_total_relation_size(i.inhrelid)))
    from pg_inherits as i where i.inhparent = 'memory.memories'::regclass
    union all
    select 'size of words', pg_size_pretty(sum(pg_total_relation_size(i.inhrelid)))
    from pg_inherits as i where i.inhparent = 'memory.words'::regclass
    union all
    select 'invalid indexes', count(*)::text
    from pg_index as x join pg_class as c on c.oid = x.indexrelid
    where c.relnamespace = 'memory'::regnamespace and not x.indisvalid
    union all
    select 'schema', string_agg(v.name, ', ' order by v.name) from memory.migrations as v
    union all
    select 'pgvector', e.extversion from pg_extension as e where e.extname = 'vector'
    union all
    select 'PostgreSQL', current_setting('server_version')
$$;
comment on function memory._overview() is 'The rows of memory.overview. Counts only, no content.';

create or replace view memory.overview as
select o.subject, o.figure from memory._overview() as o;
comment on view memory.overview is 'Counts, model, sizes, index health and versions.';
